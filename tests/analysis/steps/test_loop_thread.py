"""Steps that table `steps` cannot show are reported as missing."""

from __future__ import annotations

import math

from holter.analysis.steps.loop_thread import COUNTED, not_counted
from holter.store.job import create
from holter.store.trial import Trial
from holter.store.writer import Writer

COLUMNS = ("time", "duration", "rank", "worker", "thread", "step", "mode", "phase", "name", "value")


def missing(store, *starts):
    """Store ten steps of 10 ms for each process that starts at one of these times (ms)."""
    folder = create(str(store), "job", command=[], interval_ms=1000, rules=[], now_ns=1)
    rows = [
        (int((start + 10 * step) * 1e6), 10_000_000, 0, -1, 0, step, "train", "step", "", math.nan)
        for start in starts
        for step in range(10)
    ]
    columns = map(list, zip(*rows, strict=True))
    writer = Writer(folder, "node-0")
    writer.append("spans", dict(zip(COLUMNS, columns, strict=True)))
    writer.close()
    return not_counted(Trial(folder).sql(COUNTED).to_rows())


def test_steps_of_processes_side_by_side_are_reported(tmp_path):
    (said,) = missing(tmp_path, 1000, 1055)
    assert said == "9 of 20 steps of rank 0, which overlap other steps: several processes have this rank"


def test_processes_one_after_another_and_corrected_clocks_are_complete(tmp_path):
    assert missing(tmp_path / "attempts", 1000, 1200) == ()
    assert missing(tmp_path / "clock", 1000, 1099.5) == ()
