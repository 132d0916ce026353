"""CreateXgboostReport: collects the figures of the XGBoost report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.rules import rule_class
from holter.rules.patterns.labels import MOST_CLASSES
from holter.rules.patterns.losses import LossRule
from holter.rules.patterns.tensor_values import contents, shaped
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.rules import Issues, Window
    from holter.rules.engine.step_rows import StepRows
    from holter.rules.patterns.tensor_issues import TensorFinding

BINS = 10
MOST_FEATURES = 1000
MOST_SHOWN = 100
"""Largest number of classes of a confusion matrix that is handed over."""


@rule_class
class CreateXgboostReport(TensorRule):
    """Hands over the figures of the XGBoost report. It never fires."""

    reads = ("tensors", "tensor_values", "scalars")
    severity = "info"
    formula = "never"
    packs = ("sagemaker",)
    also_called = ("PlotVisualizations", "PlotXGBoostVisualizations")
    roles = ("labels", "predictions", "logits")
    statistics = ("mean",)
    kinds = ("value", "shape")
    save = "labels@5 --save predictions@5 --save feature_importance@5"

    def wants(self, name: str, role: str) -> bool:
        """Return whether a tensor holds labels, predictions or an importance."""
        known = name in ("labels", "predictions") or name.startswith("feature_importance/")
        return known or TensorRule.wants(self, name, role)

    def evaluate(self, window: Window) -> Issues:
        """Keep the last value of each figure, and hand them over."""
        losses: dict[str, list[float]] = window.state.setdefault("losses", {})
        for points in LossRule(ranks=self.ranks).points(window):
            losses[f"{points.name}/{points.rank}"] = [int(points.step[-1]), float(points.value[-1])]
        yield from TensorRule.evaluate(self, window)
        if losses:
            named = {
                key.rpartition("/")[0]: {"step": at, "value": v} for key, (at, v) in sorted(losses.items())
            }
            window.details["last_losses"] = named
        window.details.update(window.state.get("figures", {}))
        if importance := window.state.get("importance"):
            window.details["feature_importance"] = {kind: _shares(one) for kind, one in importance.items()}

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Keep the figures of one saved step; yields nothing."""
        values = contents(at.tables["tensor_values"])
        roles: dict[str, NDArray[np.float64]] = {}
        importance: dict[str, dict[str, float]] = {}
        for row in self.rows(window, at):
            name, role = row["name"], "predictions" if row["role"] == "logits" else row["role"]
            if name.startswith("feature_importance/"):
                kind, _, feature = name.removeprefix("feature_importance/").partition("/")
                scores = importance.setdefault(kind, {})
                if np.isfinite(row["mean"]) and len(scores) < MOST_FEATURES:
                    scores[feature] = max(float(row["mean"]), 0.0)
            elif (tensor := shaped(values.get(name, {}))) is not None:
                roles.setdefault(name if name in ("labels", "predictions") else role, tensor)
        if importance:
            window.state["importance"] = importance
        if "labels" in roles:
            window.state["figures"] = {"step": at.step, **figures(roles["labels"], roles.get("predictions"))}
        return iter(())


def figures(labels: NDArray[np.float64], predictions: NDArray[np.float64] | None) -> dict[str, object]:
    """Return job type, distribution of labels and, with predictions, confusion or residuals of one step.

    Args:
        labels: One for each example.
        predictions: A class, a probability or a number for each example; or a score for each class too.
    """
    true = labels.ravel()
    scores = predictions is not None and predictions.ndim == 2 and predictions.shape[1] > 1
    guessed = None
    if predictions is not None:
        guessed = np.argmax(predictions, axis=1).astype(np.float64) if scores else predictions.ravel()
        guessed = guessed if len(guessed) == len(true) else None
    good = np.isfinite(true) & (np.abs(true) < 2**53)
    if guessed is not None:
        good &= np.isfinite(guessed)
        guessed = guessed[good]
    true = true[good]
    binary = bool(np.isin(true, (0.0, 1.0)).all())
    kind = "multiclass" if scores else "binary" if binary else "regression"
    known, counts = np.unique(np.rint(true), return_counts=True)
    if kind == "regression" or len(known) > MOST_CLASSES:
        found: dict[str, object] = {"job_type": "regression", "label_distribution": _histogram(true)}
        return found if guessed is None else {**found, "residuals": _histogram(true - guessed)}
    shares = {str(int(label)): int(count) for label, count in zip(known, counts, strict=True)}
    found = {"job_type": kind, "label_distribution": shares}
    if guessed is None or not len(true):
        return found
    # A probability counts as the nearer class.
    whole, classes = np.rint(guessed), np.unique(np.concatenate([known, np.rint(guessed)]))[:MOST_SHOWN]
    matrix = [[int(((np.rint(true) == a) & (whole == b)).sum()) for b in classes] for a in classes]
    confusion = {"labels": [int(c) for c in classes], "rows_are_labels": matrix}
    return {**found, "confusion": confusion}


def _shares(scores: dict[str, float]) -> dict[str, float]:
    total = sum(scores.values()) or 1.0
    return {name: scores[name] / total for name in sorted(scores, key=lambda name: (-scores[name], name))}


def _histogram(values: NDArray[np.float64]) -> dict[str, list[float]]:
    if not len(values) or not np.isfinite(np.ptp(values)):
        return {"edges": [], "counts": []}
    low, high = float(values.min()), float(values.max())
    if not np.all(np.diff(np.linspace(low, high, BINS + 1)) > 0):
        return {"edges": [low, high], "counts": [len(values)]}
    counts, edges = np.histogram(values, bins=BINS)
    return {"edges": edges.tolist(), "counts": counts.tolist()}
