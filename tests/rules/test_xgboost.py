"""Rules about trees on real XGBoost models, saved by the callback of the how-to page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import ROOT, environment

from holter.evaluation import evaluate
from holter.store.job import find

HOW_TO = ROOT / "docs" / "how-to" / "save-tensors.md"
DRIVER = """
import sys
import numpy

random = numpy.random.default_rng(0)
table = random.normal(size=(1500, 6))
guesses = xgboost.DMatrix(table, (random.random(1500) < 0.5).astype(int))
given_away = xgboost.DMatrix(table, (table[:, 2] > 0).astype(int))
assert "torch" not in sys.modules
for job, data, parameters in (
    ("deep", guesses, {"max_depth": 100, "min_child_weight": 0, "lambda": 0}),
    ("flat", guesses, {"max_depth": 4}),
    ("leafwise", guesses, {"max_depth": 0, "max_leaves": 60, "grow_policy": "lossguide", "lambda": 0}),
    ("leaks", given_away, {"max_depth": 4}),
):
    holter.start(job=job, store=sys.argv[1])
    train(data, **parameters)
    holter.stop()
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train four models, each as a job."""
    folder = tmp_path_factory.mktemp("xgboost")
    (code,) = re.findall(r"```python\n(.*?class Save.*?)```", HOW_TO.read_text(), re.DOTALL)
    (folder / "train.py").write_text(code + DRIVER)
    command = [sys.executable, "train.py", str(folder / "store")]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "store"


def asked(store: Path, job: str, rule: str) -> dict[str, Any]:
    (found,) = evaluate(find(str(store), job), [rule], record=False).rules
    assert found["error"] is None
    assert found["coverage"]["evaluated"], found["coverage"]
    return found


@pytest.mark.parametrize(("job", "fires"), [("deep", True), ("flat", False), ("leafwise", True)])
def test_trees_that_are_too_deep(store: Path, job: str, fires: bool) -> None:
    found = asked(store, job, "TreeDepth:depth=4")
    assert bool(found["issues"]) is fires
    assert found["coverage"]["last_step"] == 9


def test_depth_without_links_is_that_of_the_largest_node(store: Path) -> None:
    (issue, *_) = asked(store, "deep", "TreeDepth:depth=4,use_links=false")["issues"]
    assert issue["evidence"]["value"] > 4
    assert not asked(store, "flat", "TreeDepth:depth=4,use_links=false")["issues"]


def test_a_feature_that_gives_the_label_away(store: Path) -> None:
    (issue, *_) = asked(store, "leaks", "FeatureImportanceOverweight:nfeatures=1")["issues"]
    assert next(iter(issue["evidence"]["features"])) == "f2"
    assert not asked(store, "flat", "FeatureImportanceOverweight:nfeatures=1")["issues"]


def test_the_report_lists_losses_and_importances(store: Path) -> None:
    details = asked(store, "flat", "CreateXgboostReport")["details"]
    assert set(details["feature_importance"]["gain"]) == {f"f{i}" for i in range(6)}
    assert details["last_losses"]
