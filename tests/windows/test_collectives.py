"""Collectives of two ranks: bytes, group, duration, arrival and step, and what a window adds to them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.jobs.starting import Jobs

SCRIPT = Path(__file__).with_name("collectives.py")
BYTES, LATE_NS = 4000, 30_000_000


@pytest.mark.slow
def test_who_comes_late_to_which_collective(tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = ("--no-rules", "--profile-steps", "5:10:shapes")
    done = Jobs(tmp_path / "store").run(*launch, str(SCRIPT), options=options)
    assert done.code == 0, done.stderr
    spans = done.table("spans")
    spans = spans.where(spans["phase"] == "communication")

    def of(name: str, rank: int):
        chosen = [str(one).startswith(name) for one in spans["name"]]
        return spans.where(np.asarray(chosen) & (spans["rank"] == rank))

    for rank in (0, 1):
        reduced = of("all_reduce", rank)
        assert reduced["step"].tolist() == list(range(20))
        assert set(reduced["value"].tolist()) == {BYTES}
        (group,) = {str(name) for name in of("broadcast", rank)["name"]}
        assert group.startswith("broadcast in ")
    late = of("all_reduce", 1)["time"] - of("all_reduce", 0)["time"]
    assert np.median(late) > LATE_NS / 2  # both clocks are this machine's
    waits = [np.median(of("all_reduce", rank)["duration"]) for rank in (0, 1)]
    assert waits[0] > LATE_NS / 2 > waits[1]
    events = done.table("events").to_rows()
    groups = [json.loads(row["detail"]) for row in events if row["kind"] == "process_group"]
    assert {tuple(one["ranks"]) for one in groups} == {(0, 1)}

    operators = done.table("operators")
    names = np.asarray([str(name) for name in operators["name"]])
    for rank in (0, 1):
        mine = (operators["rank"] == rank) & (names == "gloo:all_reduce")
        assert set(operators["step"][mine].tolist()) == set(range(5, 10))
    durations = [
        np.median(operators["duration"][(operators["rank"] == rank) & (names == "gloo:all_reduce")])
        for rank in (0, 1)
    ]
    assert durations[0] > LATE_NS / 2 > durations[1]
    shaped = operators["detail"][names == "c10d::allreduce_"]
    assert any(f"[[{BYTES // 4}]]" in str(one) for one in shaped), list(shaped)[:3]
