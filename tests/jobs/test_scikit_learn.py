"""scikit-learn: what it repeats in Python is a step, a fit is a range, and models stay the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.frameworks.trained import trained
from tests.jobs.starting import TRAININGS, holter

SCRIPT = str(TRAININGS / "estimators.py")
RANGES = {
    "perceptron": {"MLPClassifier.fit"},
    "stopped_perceptron": {"MLPRegressor.fit"},
    "perceptron_in_c": {"MLPClassifier.fit"},
    "boosting": {"GradientBoostingClassifier.fit"},
    "histograms": {"HistGradientBoostingClassifier.fit"},
    "partial": {"SGDClassifier.partial_fit"},
    "search": {"GridSearchCV.fit", "Ridge.fit and score", "Ridge.fit"},
    "search_in_processes": {"GridSearchCV.fit", "Ridge.fit"},
    "folds": {"GradientBoostingClassifier.fit and score", "GradientBoostingClassifier.fit"},
    "pipeline": {"Pipeline.fit", "StandardScaler.partial_fit", "HistGradientBoostingRegressor.fit"},
    "forest": {"RandomForestClassifier.fit"},
    "in_turn": {"LogisticRegression.fit", "Pipeline.fit", "StandardScaler.partial_fit"},
    "failing": {"LogisticRegression.fit", "Ridge.fit"},
}
"""Case → the ranges of its fits."""
EVALUATES = {"stopped_perceptron", "histograms", "partial", "search", "folds", "forest", "in_turn"}


@pytest.mark.capability(
    "scikit-learn", "steps", "numbers", "evaluation", "identical", parts="data loading, compute, evaluation"
)
@pytest.mark.parametrize("case", RANGES)
def test_steps_are_what_is_repeated_and_the_model_is_the_same(tmp_path: Path, case: str) -> None:
    it = trained(Path(sys.executable), SCRIPT, case, tmp_path)
    truth, told = it.truth, it.told
    assert truth["model"] == it.alone["model"]
    assert truth.get("frames") == it.alone.get("frames")
    assert told["cost"]["faults"] == []
    assert told["steps"]["count"] == truth["steps"]
    assert told["job"]["framework"]["name"] == "scikit-learn"
    shares = told["breakdown"]
    assert set(shares) == {"data_loading", "compute", "eval", "other"}
    spans = it.job.trial.table("spans")
    ranges = set(spans["name"][spans["phase"] == "annotation"].tolist())
    assert {name for name in ranges if not name.startswith("LabelBinarizer")} >= RANGES[case]
    assert (shares["eval"] > 0) == (case in EVALUATES)
    last = {one["name"]: one["last"] for one in told["numbers"]}
    for name, value in truth["numbers"].items():
        assert last[name] == pytest.approx(value), name
    if took := truth["took"]:
        steps = it.job.steps.table
        compute, evaluation = (float(steps[part][1:].sum()) for part in ("compute", "eval"))
        measured = 100 * took["compute"] / sum(took.values())
        assert 100 * compute / (compute + evaluation) == pytest.approx(measured, abs=3)
    if case not in ("partial", "in_turn", "failing"):
        assert shares["compute"] + shares["eval"] > 90


@pytest.mark.capability("scikit-learn", verdict="a loop of `partial_fit`")
def test_the_slow_generator_of_a_loop_is_named(tmp_path: Path) -> None:
    it = trained(Path(sys.executable), SCRIPT, "slow_stream", tmp_path)
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"]
    assert it.told["verdict"]["suspect"] == "data_pipeline"
    assert "generator slow_stream.stream (estimators.py:" in it.told["verdict"]["sentence"]
    assert it.told["breakdown"]["data_loading"] > 80


def test_the_steps_of_a_process_with_pytorch_are_those_of_pytorch(tmp_path: Path) -> None:
    script = """
        import torch
        from sklearn.cluster import KMeans
        from sklearn.linear_model import SGDClassifier

        table, labels = torch.randn(200, 4), torch.randint(2, (200,))
        KMeans(3, n_init=1).fit(table.numpy())
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(7):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(table), labels).backward()
            optimizer.step()
            SGDClassifier().partial_fit(table.numpy(), labels.numpy(), classes=[0, 1])
    """
    (tmp_path / "train.py").write_text("\n".join(line[8:] for line in script.splitlines()))
    holter("run", "--store", "store", "--job", "it", "--", sys.executable, "train.py", cwd=tmp_path)
    told = json.loads(holter("describe", "it", "--store", "store", "--json", cwd=tmp_path).stdout)
    assert told["steps"]["count"] == 7
    assert told["job"]["framework"]["name"] == "pytorch"
    assert "compute" not in told["breakdown"]


def test_pytorch_counts_the_steps_after_a_fit(tmp_path: Path) -> None:
    script = """
        import numpy
        from sklearn.linear_model import Ridge

        Ridge().fit(numpy.eye(9), range(9))
        import torch

        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(7):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).sum().backward()
            optimizer.step()
    """
    (tmp_path / "train.py").write_text("\n".join(line[8:] for line in script.splitlines()))
    holter("run", "--store", "store", "--job", "it", "--", sys.executable, "train.py", cwd=tmp_path)
    told = json.loads(holter("describe", "it", "--store", "store", "--json", cwd=tmp_path).stdout)
    assert told["steps"]["count"] == 8
    assert told["steps"]["unit"] == "one optimizer step"
    assert told["job"]["framework"]["name"] == "pytorch"
    assert told["breakdown"]["backward"] > 0
