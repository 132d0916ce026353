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


@pytest.mark.capability("CatBoost", "steps", "identical", "numbers", "callbacks", parts="compute, callbacks")
def test_a_slow_callback_is_named_and_ends_rounds(tmp_path: Path, framework_python: Path) -> None:
    it = trained(framework_python, "cat.py", "slow_callback", tmp_path)
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"]
    assert it.seconds("callback Clock.after_iteration") == pytest.approx(it.truth["callback"], rel=0.05)
    steps = it.job.steps.table
    ends = (steps["time"] + steps["duration"]).tolist()
    assert (ends[-1] - ends[9]) / 1e9 == pytest.approx(it.truth["loop"], rel=0.05)
    whole = float(steps["duration"][10:].sum())
    slept = 100 * it.truth["callback"] * 30 / 40 * 1e9 / whole
    assert 100 * float(steps["other"][10:].sum()) / whole == pytest.approx(slept, abs=3)
    for data, metrics in it.truth["history"].items():
        for metric, values in metrics.items():
            assert it.scalars(f"{data}-{metric}", "train") == pytest.approx(values), (data, metric)
    assert it.told["verdict"]["suspect"] == "own_code"
    assert "Clock.after_iteration" in it.told["verdict"]["sentence"]


@pytest.mark.capability("CatBoost", "verdict", "evaluation", "checkpoints")
@pytest.mark.parametrize(("case", "suspect"), [("data_bound", "data_pipeline"), ("compute_bound", "healthy")])
def test_twins_get_their_verdicts(tmp_path: Path, framework_python: Path, case: str, suspect: str) -> None:
    it = trained(framework_python, "cat.py", case, tmp_path, alone=case == "data_bound")
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"]
    assert it.suspects <= {suspect}
    if case == "compute_bound":
        assert it.told["breakdown"]["compute"] > 90
        return
    assert it.truth["model"] == it.alone["model"]
    assert it.suspects == {suspect}
    assert "generator portions (cat.py:" in it.told["verdict"]["sentence"]
    assert it.told["breakdown"]["data_loading"] > 30
    spans = it.job.trial.table("spans", where="name = 'CatBoost.save_model' OR phase = 'eval'").sorted("time")
    assert spans["phase"].tolist()[:4] == ["eval", "checkpoint"] * 2
    assert spans["value"].tolist()[3] == (tmp_path / "model.cbm").stat().st_size


def _steps_of(job: Any, name: str) -> list[int]:
    scalars = job.trial.table("scalars")
    return sorted(scalars["step"][scalars["name"] == name].tolist())
