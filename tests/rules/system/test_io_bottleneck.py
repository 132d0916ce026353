"""Tests of the rule IOBottleneck."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.snapshots import snapshots
from tests.rules.tables import SECOND, found, samples, steps

from holter.rules.system.io_bottleneck import IOBottleneck
from holter.schema.table import Table


def test_p7_io():
    rule = IOBottleneck.of(defaults="classic")
    assert found(rule, samples=snapshots("cpu.core.iowait", 232, 3670, high=80.0)) == []
    assert found(rule, samples=snapshots("cpu.core.iowait", 2232, 3670, high=80.0))


def test_pressure_counts_where_cores_say_nothing():
    count = 1300
    table = samples({("gpu.util", "gpu0"): np.full(count, 20.0), ("psi.io", ""): np.full(count, 45.0)})
    assert [i.code for i in found(IOBottleneck(), samples=table)] == ["machine"]


@pytest.mark.parametrize(("frame", "codes"), [("open (fsspec/spec.py:9)", ["reads"]), ("crop (t.py:3)", [])])
def test_loading_that_is_mostly_reading_needs_no_gpu(frame, codes):
    table = steps([0.1] * 300, data_loading=0.5, forward=0.3)
    rows = []
    for row in table.to_rows():
        # One worker reads throughout the wait of each step.
        span = {
            "rank": 0,
            "node": "n0",
            "mode": "train",
            "time": row["time"],
            "duration": row["data_loading"],
        }
        rows += [
            {**span, "worker": -1, "thread": 0, "step": row["step"], "phase": "data_loading", "value": 0.0},
            {**span, "worker": 0, "phase": "fetch", "value": 32.0},
            {**span, "worker": 0, "phase": "stack", "name": f"Files.__getitem__ (d.py:1);{frame}"},
        ]
    issues = found(IOBottleneck(), steps=table, spans=Table.of("spans", rows))
    assert [i.code for i in issues] == codes
    assert table["duration"].sum() == 30 * SECOND
