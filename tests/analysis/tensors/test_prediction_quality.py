"""Measures of predictions against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest

from holter.analysis.tensors import prediction_quality as quality

metrics = pytest.importorskip("sklearn.metrics")


@pytest.mark.parametrize("classes", [2, 4])
def test_scores_of_classes(classes: int) -> None:
    random = np.random.default_rng(classes)
    true = random.integers(0, classes, 500).astype(float)
    guessed = np.where(random.random(500) < 0.6, true, random.integers(0, classes, 500)).astype(float)
    confusion = quality.confusion(true, guessed)
    assert confusion["rows_are_labels"] == metrics.confusion_matrix(true, guessed).tolist()
    found = quality.class_scores(confusion)
    wanted = metrics.classification_report(true, guessed, output_dict=True)
    assert found["accuracy"] == pytest.approx(wanted["accuracy"])
    for label, row in found["classes"].items():
        of = wanted[f"{label}.0"]
        values = [row["precision"], row["recall"], row["f1"], row["support"]]
        assert values == pytest.approx([of["precision"], of["recall"], of["f1-score"], of["support"]])
    for mean in ("macro", "weighted"):
        of, row = wanted[f"{mean} avg"], found["means"][mean]
        values = [row["precision"], row["recall"], row["f1"]]
        assert values == pytest.approx([of["precision"], of["recall"], of["f1-score"]])


def test_a_class_that_is_never_predicted_has_no_precision() -> None:
    found = quality.class_scores(quality.confusion(np.array([0.0, 1.0]), np.array([0.0, 0.0])))
    assert found["classes"]["1"]["precision"] is None
    assert found["classes"]["1"]["recall"] == 0.0


@pytest.mark.parametrize("levels", [5, 10**6])
def test_the_area_under_the_curve(levels: int) -> None:
    random = np.random.default_rng(1)
    true = random.integers(0, 2, 3000).astype(float)
    scores = np.round((0.3 * true + random.random(3000)) * levels) / levels
    found = quality.roc(true, scores)
    assert found is not None
    assert found["auc"] == pytest.approx(metrics.roc_auc_score(true, scores))
    assert len(found["fpr"]) <= quality.ROC_POINTS
    assert (found["fpr"][0], found["tpr"][0], found["fpr"][-1], found["tpr"][-1]) == (0.0, 0.0, 1.0, 1.0)


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
