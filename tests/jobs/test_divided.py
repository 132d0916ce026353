"""Models that ranks divide by FSDP2 and by tensor parallelism: the same training, and what ranks wait for."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import LAUNCH, LIMIT_S, TRAININGS, Jobs, environment

from holter.job import open as open_job

SCRIPT = str(TRAININGS / "divided.py")
STEPS, LATE = 16, 0.1


def truths(folder: Path) -> list[dict[str, Any]]:
    return [json.loads((folder / f"truth-{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "collectives"),
    [("fsdp", {"all_gather_single", "reduce_scatter_single"}), ("tensors", {"all_reduce", "wait_tensor"})],
)
def test_ranks_that_divide_a_model(jobs: Jobs, tmp_path: Path, way: str, collectives: set[str]) -> None:
    words = [*LAUNCH, SCRIPT, way, "--steps", str(STEPS), "--late", str(LATE)]
    folders = [tmp_path / "alone", tmp_path / "recorded"]
    for folder in folders:
        folder.mkdir()
    alone = environment(PYTHONPATH="", TRUTH=str(folders[0]))
    subprocess.run(words, env=alone, check=True, timeout=LIMIT_S, capture_output=True)
    options = ("--save", "gradients@10", "--save", "weights@10", "--profile-steps", "11:12")
    done = jobs.run(*words, options=options, env={"TRUTH": str(folders[1])})
    assert done.code == 0, done.stderr
    for before, now in zip(truths(folders[0]), truths(folders[1]), strict=True):
        assert now["losses"] == before["losses"]
        assert now["weights"] == before["weights"]
    told = done.describe()
    assert told["ranks"] == [0, 1]
    assert told["steps"]["count"] == STEPS
    assert told["cost"]["faults"] == []
    spans = done.table("spans")
    spans = spans.where((spans["phase"] == "communication") & (spans["step"] < STEPS))
    names = {str(name).split(" in ")[0] for name in spans["name"]}
    assert collectives <= names
    steps = done.table("steps")
    of_rank = [steps.where((steps["rank"] == rank) & (steps["step"] > 1)) for rank in (0, 1)]
    waits = [float(one["communication"].sum()) / 1e9 / one.rows for one in of_rank]
    assert waits[0] - waits[1] > LATE / 2, "rank 0 waits for rank 1, but no longer than it is late"
    assert waits[0] < of_rank[0]["duration"].sum() / 1e9 / of_rank[0].rows
    windows = done.table("operators")
    assert {0, 1} == set(windows["rank"].tolist())
    tensors = open_job(str(done.store / done.job)).trial.table("tensors")
    parts = {(int(row["part"]), int(row["parts"])) for row in tensors.to_rows() if row["parts"] > 1}
    assert parts == {(0, 2), (1, 2)}, "each rank stores its part"
    found = {rule["name"] for rule in told["rules"] if rule["status"] == "IssuesFound"}
    assert not found & {"ReplicasDiffer", "GradientsNotExchanged", "MissingGradient", "RepeatedBatches"}
