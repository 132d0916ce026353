"""Libraries of trees: rounds are steps, parts agree with a clock in the script, models stay the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.frameworks.trained import trained
from tests.jobs.starting import TRAININGS, holter

from holter.job import open as open_job

SCRIPT = str(TRAININGS / "boosting.py")
CASES = [
    "plain",
    "light_evaluation",
    "stopped",
    "estimator",
    "folds",
    "loop",
    "threads",
    "threads_in_turn",
    "marked",
    "lightgbm",
    "lightgbm_folds",
]


def of_library(cases: list[str], *claims: str, **details: str) -> list[Any]:
    """Return parameters that claim capabilities of the library that a case trains with."""
    libraries = ["LightGBM" if case.startswith("lightgbm") else "XGBoost" for case in cases]
    return [
        pytest.param(case, marks=pytest.mark.capability(library, *claims, **details))
        for case, library in zip(cases, libraries, strict=True)
    ]


@pytest.mark.parametrize(
    "case",
    of_library(
        CASES, "steps", "numbers", "identical", "evaluation", parts="data loading, compute, evaluation"
    ),
)
def test_rounds_are_steps_and_the_model_is_the_same(tmp_path: Path, case: str) -> None:
    it = trained(Path(sys.executable), SCRIPT, case, tmp_path)
    truth, told = it.truth, it.told
    assert truth["model"] == it.alone["model"]
    assert told["cost"]["faults"] == []
    assert told["steps"]["count"] == truth["steps"]
    assert told["job"]["framework"]["name"] == ("lightgbm" if case.startswith("lightgbm") else "xgboost")
    shares = told["breakdown"]
    if case != "marked":
        assert set(shares) == {"data_loading", "compute", "eval", "other"}
    assert sum(shares.values()) == pytest.approx(100)
    if case in ("plain", "light_evaluation", "lightgbm"):
        both = truth["took"]["grow"] + truth["took"]["evaluate"]
        grow, evaluate = (100 * truth["took"][part] / both for part in ("grow", "evaluate"))
        # The script's clock runs in the first rounds too, which the breakdown leaves out.
        steps = it.job.steps.table
        compute, evaluation = (float(steps[part].sum()) for part in ("compute", "eval"))
        assert 100 * compute / (compute + evaluation) == pytest.approx(grow, abs=3)
        assert 100 * evaluation / (compute + evaluation) == pytest.approx(evaluate, abs=3)
        names = {one["name"] for one in told["numbers"]}
        assert any(name.startswith(("validation-", "valid_1-")) for name in names), names


TWINS = {
    "data_bound": ("data_pipeline", "build DMatrix"),
    "compute_bound": ("healthy", ""),
    "lightgbm_data_bound": ("data_pipeline", "build Dataset"),
    "lightgbm_compute_bound": ("healthy", ""),
}
"""Case → its verdict, and the name of what builds a matrix."""


@pytest.mark.parametrize("case", of_library(list(TWINS), "verdict", "checkpoints"))
def test_twins_get_their_verdicts(tmp_path: Path, case: str) -> None:
    suspect, builds = TWINS[case]
    it = trained(Path(sys.executable), SCRIPT, case, tmp_path, alone=suspect == "data_pipeline")
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"]
    assert it.suspects <= {suspect}
    if suspect == "healthy":
        assert it.told["breakdown"]["compute"] > 90
        return
    assert it.truth["model"] == it.alone["model"]
    assert it.suspects == {suspect}
    assert "generator portions (boosting.py:" in it.told["verdict"]["sentence"]
    assert it.told["breakdown"]["data_loading"] > 30
    assert it.told["breakdown"]["checkpoint"] > 0
    assert sum(it.told["breakdown"].values()) == pytest.approx(100)
    built = it.job.trial.table("spans", where=f"name = '{builds}'").sorted("time")["duration"][-40:]
    assert float(built.sum()) / 1e9 == pytest.approx(it.truth["took"]["build"], rel=0.1, abs=0.02)
    saved = it.job.trial.table("spans", where="name = 'Booster.save_model'").sorted("time")
    assert set(saved["phase"].tolist()) == {"checkpoint"}
    assert saved.rows == 2
    (file,) = tmp_path.glob("model.*")
    assert saved["value"].tolist()[-1] == file.stat().st_size


SLOW = {"slow_callback": "Slow.after_iteration", "lightgbm_slow_callback": "dawdle"}
"""Case → the function of its callback."""


@pytest.mark.parametrize("case", of_library(list(SLOW), callbacks="slow ones, by function and line"))
def test_a_slow_callback_is_named_by_function_and_line(tmp_path: Path, case: str) -> None:
    it = trained(Path(sys.executable), SCRIPT, case, tmp_path, alone=False)
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"]
    assert it.told["verdict"]["suspect"] == "own_code"
    sentence = it.told["verdict"]["sentence"]
    assert f"time.sleep, called by {case}.{SLOW[case]} (boosting.py:{_sleeps_at(case)})" in sentence


def _sleeps_at(case: str) -> int:
    """Return the line on which a case of the script sleeps."""
    lines = Path(SCRIPT).read_text().splitlines()
    begin = lines.index(f"def {case}() -> bytes:")
    return next(at for at, line in enumerate(lines[begin:], begin + 1) if "time.sleep" in line)


@pytest.mark.capability("XGBoost", tensors="importances")
def test_a_regular_expression_chooses_importances(tmp_path: Path) -> None:
    options = ("--save", "/^feature_importance.gain.f[01]$/@10")
    holter(
        "run",
        "--store",
        "store",
        "--job",
        "it",
        *options,
        "--",
        sys.executable,
        SCRIPT,
        "plain",
        cwd=tmp_path,
    )
    tensors = open_job(str(tmp_path / "store/it")).trial.table("tensors")
    saved = sorted(set(zip(tensors["name"].tolist(), tensors["step"].tolist(), strict=True)))
    names = ("feature_importance/gain/f0", "feature_importance/gain/f1")
    assert saved == [(name, step) for name in names for step in (0, 10, 20, 30)]


@pytest.mark.capability("XGBoost", tensors="importances")
def test_importances_have_five_kinds(tmp_path: Path) -> None:
    options = ("--save", "feature_importance@39")
    command = (sys.executable, SCRIPT, "plain")
    holter("run", "--store", "store", "--job", "it", *options, "--", *command, cwd=tmp_path)
    tensors = open_job(str(tmp_path / "store/it")).trial.table("tensors")
    last = tensors["step"] == 39
    found = dict(zip(tensors["name"][last].tolist(), tensors["mean"][last].tolist(), strict=True))
    expected = json.loads((tmp_path / "truth.json").read_text())["figures"]["importance"]
    assert {name.split("/")[1] for name in found} == set(expected)
    for kind, scores in expected.items():
        mine = {f: found[f"feature_importance/{kind}/{f}"] for f in (f"f{at}" for at in range(12))}
        assert mine == pytest.approx({f: scores.get(f, 0.0) for f in mine}), kind


SHAP_CASES = ["plain", "estimator", "shap_of_classes", "lightgbm_shap"]


@pytest.mark.parametrize("case", of_library(SHAP_CASES, tensors="SHAP values"))
def test_shap_values_are_saved_once_and_leave_the_model_alone(tmp_path: Path, case: str) -> None:
    options = ("--save", "average_shap", "--save", "full_shap")
    it = trained(Path(sys.executable), SCRIPT, case, tmp_path, *options)
    truth, told = it.truth, it.told
    assert truth["model"] == it.alone["model"]
    assert told["cost"]["faults"] == []
    assert told["steps"]["count"] == truth["steps"]
    trial = it.job.trial
    tensors = trial.table("tensors")
    assert set(tensors["step"].tolist()) == {truth["steps"]}
    found = dict(zip(tensors["name"].tolist(), tensors["mean"].tolist(), strict=True))
    averages = [found[name] for name in sorted(found, key=lambda name: name[-8:]) if name != "full_shap"]
    assert sorted(averages) == pytest.approx(sorted(truth["figures"]["shap"]), rel=1e-4)
    values = trial.table("tensor_values")
    shape = values["value"][(values["name"] == "full_shap") & (values["kind"] == "shape")].tolist()
    assert [int(size) for size in shape] == truth["figures"]["shap_shape"]
