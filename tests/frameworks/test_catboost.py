"""CatBoost: rounds are steps, metrics are those of CatBoost, and models stay the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.frameworks.trained import trained

pytestmark = pytest.mark.framework("catboost")
CASES = ["classifier", "regressor", "function", "stopped", "failing", "silent", "folds"]


@pytest.mark.capability("CatBoost", "steps", "numbers", "identical", parts="data loading, compute")
@pytest.mark.parametrize("case", CASES)
def test_rounds_are_steps_and_the_model_is_the_same(
    tmp_path: Path, framework_python: Path, case: str
) -> None:
    it = trained(framework_python, "cat.py", case, tmp_path)
    truth, told = it.truth, it.told
    assert truth["model"] == it.alone["model"]
    assert told["cost"]["faults"] == []
    assert told["steps"]["count"] == truth["steps"]
    assert told["job"]["framework"]["name"] == "catboost"
    assert set(told["breakdown"]) == {"data_loading", "compute", "other"}
    steps = it.job.steps.table
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
        assert _steps_of(it.job, "learn-Logloss") == [0, 10, 20, 30, 39]


def _steps_of(job: Any, name: str) -> list[int]:
    scalars = job.trial.table("scalars")
    return sorted(scalars["step"][scalars["name"] == name].tolist())
