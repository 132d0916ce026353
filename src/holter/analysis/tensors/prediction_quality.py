"""Measures of a model's predictions: distributions, confusion, scores of classes, ROC and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

BINS = 10
MOST_BINS = 200
"""Intervals of a histogram whose width follows from its values."""
MOST_CLASSES = 100
"""Largest number of classes of a confusion matrix."""
ROC_POINTS = 101


def kind_of(labels: NDArray[np.float64], predictions: NDArray[np.float64] | None) -> str:
    """Return `binary`, `multiclass` or `regression`, by the labels and the shape of the predictions."""
    if predictions is not None and predictions.ndim == 2 and predictions.shape[1] > 1:
        return "multiclass"
    true = labels.ravel()
    if np.isin(true, (0.0, 1.0)).all():
        return "binary"
    guessed = None if predictions is None else predictions.ravel()
    whole = np.array_equal(true, np.rint(true)) and len(np.unique(true)) <= MOST_CLASSES
    classes = guessed is not None and np.array_equal(guessed, np.rint(guessed)) and (true >= 0).all()
    return "multiclass" if whole and classes else "regression"


def aligned(
    labels: NDArray[np.float64], predictions: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the finite labels, and their predictions as one number each; None if they do not fit."""
    true, guessed = labels.ravel(), None
    good = np.isfinite(true) & (np.abs(true) < 2**53)
    if predictions is not None:
        scores = predictions.ndim == 2 and predictions.shape[1] > 1
        flat = np.argmax(predictions, axis=1).astype(np.float64) if scores else predictions.ravel()
        if len(flat) == len(true):
            good &= np.isfinite(flat)
            guessed = flat[good]
    return true[good], guessed


def confusion(true: NDArray[np.float64], guessed: NDArray[np.float64]) -> dict[str, list[object]]:
    """Count predicted classes for each class; a probability counts as the nearer class."""
    true, guessed = np.rint(true), np.rint(guessed)
    classes = np.unique(np.concatenate([true, guessed]))[:MOST_CLASSES]
    matrix = [[int(((true == a) & (guessed == b)).sum()) for b in classes] for a in classes]
    return {"labels": [int(one) for one in classes], "rows_are_labels": list(matrix)}


def class_scores(found: Mapping[str, list[object]]) -> dict[str, object]:
    """Return accuracy, and precision, recall, F1 and support of each class and their means.

    A ratio whose denominator is 0 is None, and the macro mean is over the others.
    """
    matrix = np.array(found["rows_are_labels"], dtype=np.float64)
    right, support, said = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    total = float(matrix.sum())
    accuracy = float(right.sum()) / total if total else None
    rows = {}
    for at, label in enumerate(found["labels"]):
        precision, recall = _ratio(right[at], said[at]), _ratio(right[at], support[at])
        f1 = _ratio(2 * right[at], said[at] + support[at])
        rows[str(label)] = {
            "precision": precision,
            "recall": recall,
            "f1": f1,
            "support": float(support[at]),
        }
    means = {"micro": dict.fromkeys(("precision", "recall", "f1"), accuracy)}
    for name, weights in (("macro", np.ones(len(support))), ("weighted", support)):
        means[name] = {
            score: _mean([row[score] for row in rows.values()], weights)
            for score in ("precision", "recall", "f1")
        }
    return {"accuracy": accuracy, "classes": rows, "means": means}


def class_accuracy(true: NDArray[np.float64], guessed: NDArray[np.float64]) -> dict[str, float]:
    """Return for each class the share of its examples that are predicted right."""
    true, guessed = np.rint(true), np.rint(guessed)
    return {
        str(int(one)): float((guessed[true == one] == one).mean()) for one in np.unique(true)[:MOST_CLASSES]
    }


def roc(true: NDArray[np.float64], scores: NDArray[np.float64]) -> dict[str, object] | None:
    """Return the curve of true over false positives with its area; None if a class is absent.

    Examples with equal scores are one step of the curve. The area is that of all steps; at most `ROC_POINTS`
    points are returned.
    """
    positive = true == 1
    if positive.all() or not positive.any():
        return None
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    hits = np.cumsum(positive[order])[ends]
    tpr = np.concatenate([[0.0], hits / positive.sum()])
    fpr = np.concatenate([[0.0], (ends + 1 - hits) / (~positive).sum()])
    area = float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2))
    kept = np.unique(np.linspace(0, len(fpr) - 1, min(len(fpr), ROC_POINTS)).round().astype(np.int64))
    return {"fpr": fpr[kept].tolist(), "tpr": tpr[kept].tolist(), "auc": area}


def label_bins(true: NDArray[np.float64]) -> list[float]:
    """Return the edges of `BINS` equal intervals of the labels; fewer if they hardly differ."""
    return histogram(true)["edges"]


def error_by_bin(
    true: NDArray[np.float64], guessed: NDArray[np.float64], edges: list[float]
) -> list[float | None]:
    """Return the mean absolute error of the examples in each interval of labels; None without examples."""
    where = np.clip(np.searchsorted(edges, true, side="right") - 1, 0, len(edges) - 2)
    errors = np.abs(true - guessed)
    return [
        float(errors[where == at].mean()) if (where == at).any() else None for at in range(len(edges) - 1)
    ]


def residuals(true: NDArray[np.float64], guessed: NDArray[np.float64]) -> dict[str, object]:
    """Return the distribution of prediction minus label: a histogram, the mean and the standard deviation."""
    errors = guessed - true
    if not len(errors):
        return dict(histogram(errors))
    return {
        **histogram(errors, _bins(errors)),
        "mean": float(errors.mean()),
        "std": float(errors.std()),
    }


def _bins(values: NDArray[np.float64]) -> int:
    """Return a number of intervals by the narrower of the rules of Sturges and of Freedman and Diaconis."""
    spread = float(np.subtract(*np.percentile(values, [75, 25])))
    needed = np.log2(len(values)) + 1
    if spread:
        needed = max(needed, float(np.ptp(values)) / (2 * spread) * len(values) ** (1 / 3))
    return int(min(np.ceil(needed), MOST_BINS))


def histogram(values: NDArray[np.float64], bins: int = BINS) -> dict[str, list[float]]:
    """Count values in equal intervals."""
    if not len(values) or not np.isfinite(np.ptp(values)):
        return {"edges": [], "counts": []}
    low, high = float(values.min()), float(values.max())
    if not np.all(np.diff(np.linspace(low, high, bins + 1)) > 0):
        return {"edges": [low, high], "counts": [len(values)]}
    counts, edges = np.histogram(values, bins=bins)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _ratio(part: float, whole: float) -> float | None:
    return float(part) / float(whole) if whole else None


def _mean(values: list[float | None], weights: NDArray[np.float64]) -> float | None:
    known = [(value, weight) for value, weight in zip(values, weights, strict=True) if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None
