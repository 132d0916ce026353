"""The XGBoost training report of real trainings, recorded without a changed line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import TRAININGS, holter

ALWAYS = (
    "Distribution of true labels",
    "Loss and metrics per round",
    "Feature importance",
    "Hyperparameters",
)
OF_CLASSES = (
    "Confusion matrix",
    "Evaluation of the confusion matrix",
    "Accuracy of each class per round",
    "Residuals",
)
ORIGINAL = json.loads((Path(__file__).parent / "xgboost_original.json").read_text())
"""Numbers of the original's report, by the kind of the training."""
SECTIONS = {
    "binary": (*ALWAYS, *OF_CLASSES, "ROC curve"),
    "multiclass": (*ALWAYS, *OF_CLASSES),
    "softmax": (*ALWAYS, *OF_CLASSES),
    "regression": (*ALWAYS, "Absolute error per interval of labels and round", "Residuals"),
}


@pytest.mark.capability("XGBoost", tensors="labels, predictions")
@pytest.mark.parametrize("kind", SECTIONS)
def test_the_report_has_the_sections_of_its_kind(tmp_path: Path, kind: str) -> None:
    script = str(TRAININGS / "boosting.py")
    holter(
        *("run", "--store", "store", "--job", "it", "--rule", "CreateXgboostReport"),
        *("--", sys.executable, script, kind),
        cwd=tmp_path,
    )
    folder = tmp_path / "store/it/rule-output/CreateXgboostReport"
    page = (folder / "xgboost_report.html").read_text()
    for section in SECTIONS[kind]:
        assert f"<h2>{section}</h2>" in page, section
    assert page.count("<h2>") == len(SECTIONS[kind])
    told: dict[str, Any] = json.loads((folder / "xgboost_report.json").read_text())
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert told["job_type"] == ("multiclass" if kind == "softmax" else kind)
    for name, value in truth["figures"].items():
        assert told[name] == value if not isinstance(value, float) else told[name] == pytest.approx(value)
    assert told["hyperparameters"]["objective"] or told["hyperparameters"]["name"]
    code = [cell["source"] for cell in json.loads((folder / "xgboost_report.ipynb").read_text())["cells"]]
    assert any("CreateXgboostReport" in source for source in code)
    if kind in ORIGINAL:
        same_as_the_original(told, ORIGINAL[kind])


def same_as_the_original(told: dict[str, Any], original: dict[str, Any]) -> None:
    """Compare every number that both reports have.

    The numbers are those of the report that smdebug 1.0.34 recorded the tensors for, of the same trainings
    with the same XGBoost. It counts labels once for each saved round, and draws the ROC curve of rounded
    probabilities, which has one corner: the area compared here is that of the probabilities themselves.
    """
    assert told["step"] == 35
    for name, values in original["metrics"].items():
        ours = dict(zip(told["metrics"][name]["rounds"], told["metrics"][name]["values"], strict=True))
        assert [ours[at] for at in range(0, 40, 5)] == pytest.approx(values, rel=1e-12), name
    for kind, shares in original["importance"].items():
        ours = {name: share for name, share in told["feature_importance"][kind].items() if share}
        assert ours == pytest.approx(shares, rel=1e-6), kind
    residuals = told["residuals"]
    assert residuals["counts"] == original["residuals"]["counts"]
    assert residuals["edges"] == pytest.approx(original["residuals"]["edges"], abs=1e-5)
    assert [residuals["mean"], residuals["std"]] == pytest.approx(original["residuals"]["fit"], abs=1e-6)
    rounds = told["rounds"]
    assert rounds["steps"] == list(range(0, 40, 5))
    if "errors" in original:
        for ours, errors in zip(rounds["values"], original["errors"], strict=True):
            assert ours == pytest.approx(errors, rel=1e-5)
        return
    assert list(told["label_distribution"].values()) == original["labels"]
    assert told["confusion"]["rows_are_labels"] == original["confusion"]
    for ours, accuracies in zip(rounds["values"], original["accuracies"], strict=True):
        assert list(ours.values()) == pytest.approx(accuracies)
    scores = told["scores"]
    assert scores["accuracy"] == pytest.approx(original["scores"]["accuracy"])
    for mean in ("micro", "macro", "weighted"):
        assert list(scores["means"][mean].values()) == pytest.approx(original["scores"][mean]), mean
    for ours, values in zip(
        scores["classes"].values(), zip(*original["scores"]["classes"], strict=True), strict=True
    ):
        assert list(ours.values()) == pytest.approx(values)
    if "area" in original:
        assert told["roc"]["auc"] == pytest.approx(original["area"])
