"""CatBoost: rounds are steps, metrics are those of CatBoost, and models stay the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import environment, holter

from holter.job import open as open_job

pytestmark = pytest.mark.framework("catboost")
SCRIPT = str(Path(__file__).parent / "trainings" / "cat.py")
CASES = ["classifier", "regressor", "function", "stopped", "failing", "silent", "folds"]


@pytest.mark.parametrize("case", CASES)
def test_rounds_are_steps_and_the_model_is_the_same(
    tmp_path: Path, framework_python: Path, case: str
) -> None:
    command = [str(framework_python), SCRIPT, case]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True, timeout=120)
    alone = json.loads((tmp_path / "truth.json").read_text())
    holter("run", "--store", "store", "--job", "it", "--", *command, cwd=tmp_path)
    truth = json.loads((tmp_path / "truth.json").read_text())
    told = json.loads(holter("describe", "it", "--store", "store", "--json", cwd=tmp_path).stdout)
    assert truth["model"] == alone["model"]
    assert told["cost"]["faults"] == []
    assert told["steps"]["count"] == truth["steps"]
    assert told["job"]["framework"]["name"] == "catboost"
    assert set(told["breakdown"]) == {"data_loading", "compute", "other"}
    job = open_job(str(tmp_path / "store/it"))
    steps = job.steps.table
    assert told["breakdown"]["compute"] > 90
    last = {one["name"]: one["last"] for one in told["numbers"]}
    for name, value in truth["numbers"].items():
        assert last[name] == pytest.approx(value), name
    if "took" in truth:
        grown = float(steps["compute"].sum()) / 1e9
        assert grown <= truth["took"]
        ends = [float(end) for end in truth["ends"]]
        mine = (steps["time"] + steps["duration"]).tolist()
        # The clock of the script and that of the job have another zero: lengths are compared.
        assert (mine[-1] - mine[9]) / 1e9 == pytest.approx(ends[-1] - ends[9], rel=0.1, abs=0.005)
    if case == "function":
        assert _steps_of(job, "learn-Logloss") == [0, 10, 20, 30, 39]


def _steps_of(job: Any, name: str) -> list[int]:
    scalars = job.trial.table("scalars")
    return sorted(scalars["step"][scalars["name"] == name].tolist())
