"""Measures of predictions against scikit-learn's."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from holter.analysis.tensors import prediction_quality as quality

ORACLE = """
import json, sys
from sklearn import metrics
true, guessed, labels, scores = json.load(sys.stdin)
print(json.dumps({
    "confusion": metrics.confusion_matrix(true, guessed).tolist(),
    "report": metrics.classification_report(true, guessed, output_dict=True),
    "auc": metrics.roc_auc_score(labels, scores),
}))
"""
"""A process of its own: the recorder names scikit-learn wherever it was imported."""


def ask_oracle(*vectors: NDArray[np.float64]) -> dict[str, Any]:
    """Return what scikit-learn computes from labels, predictions, binary labels and scores."""
    given = json.dumps([one.tolist() for one in vectors])
    words = [sys.executable, "-c", ORACLE]
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=True, timeout=100)
    return cast("dict[str, Any]", json.loads(done.stdout))


@pytest.mark.parametrize(("classes", "levels"), [(2, 5), (4, 10**6)])
def test_scores_of_classes_and_the_area_under_the_curve(classes: int, levels: int) -> None:
    random = np.random.default_rng(classes)
    true = random.integers(0, classes, 500).astype(float)
    guessed = np.where(random.random(500) < 0.6, true, random.integers(0, classes, 500)).astype(float)
    labels = random.integers(0, 2, 3000).astype(float)
    scores = np.round((0.3 * labels + random.random(3000)) * levels) / levels
    wanted = ask_oracle(true, guessed, labels, scores)

    confusion = quality.confusion(true, guessed)
    assert confusion["rows_are_labels"] == wanted["confusion"]
    found, report = quality.class_scores(confusion), wanted["report"]
    assert found["accuracy"] == pytest.approx(report["accuracy"])
    for label, row in found["classes"].items():
        assert row == pytest.approx(
            _scores(report[f"{label}.0"]) | {"support": report[f"{label}.0"]["support"]}
        )
    for mean in ("macro", "weighted"):
        assert found["means"][mean] == pytest.approx(_scores(report[f"{mean} avg"]))

    curve = quality.roc(labels, scores)
    assert curve is not None
    assert curve["auc"] == pytest.approx(wanted["auc"])
    assert len(curve["fpr"]) <= quality.ROC_POINTS
    assert (curve["fpr"][0], curve["tpr"][0], curve["fpr"][-1], curve["tpr"][-1]) == (0.0, 0.0, 1.0, 1.0)


def _scores(row: dict[str, float]) -> dict[str, float]:
    return {"precision": row["precision"], "recall": row["recall"], "f1": row["f1-score"]}


def test_a_class_that_is_never_predicted_has_no_precision() -> None:
    found = quality.class_scores(quality.confusion(np.array([0.0, 1.0]), np.array([0.0, 0.0])))
    assert found["classes"]["1"]["precision"] is None
    assert found["classes"]["1"]["recall"] == 0.0


def test_a_curve_needs_both_classes() -> None:
    assert quality.roc(np.ones(5), np.arange(5.0)) is None


def test_errors_by_label() -> None:
    true = np.array([0.0, 1.0, 9.0, 10.0])
    edges = quality.label_bins(true)
    errors = quality.error_by_bin(true, true + np.array([1.0, 1.0, 2.0, -4.0]), edges)
    assert (errors[0], errors[1], errors[9], errors[5]) == (1.0, 1.0, 3.0, None)


@pytest.mark.parametrize(
    ("labels", "predictions", "kind"),
    [
        ([0, 1, 1], [0.2, 0.9, 0.7], "binary"),
        ([0, 1, 2], np.eye(3), "multiclass"),
        ([0, 1, 2], [0.0, 1.0, 1.0], "multiclass"),
        ([0.5, 3.0], [0.4, 2.0], "regression"),
        ([1, 5], [1.2, 4.0], "regression"),
    ],
)
def test_the_kind_of_job(labels: list[float], predictions: object, kind: str) -> None:
    assert quality.kind_of(np.array(labels, dtype=float), np.array(predictions, dtype=float)) == kind
