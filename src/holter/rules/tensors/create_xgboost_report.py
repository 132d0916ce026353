"""CreateXgboostReport: collects the figures of the XGBoost report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.tensors import prediction_quality as quality
from holter.rules import rule_class
from holter.rules.patterns.losses import LossRule
from holter.rules.patterns.tensor_values import contents, shaped
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.rules import Issues, State, Window
    from holter.rules.engine.step_rows import StepRows
    from holter.rules.patterns.tensor_issues import TensorFinding

MOST_FEATURES = 1000
MOST_ROUNDS = 400
"""Saved rounds that the curves hold; of more, each second one is dropped."""


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
    saves = True

    def wants(self, name: str, role: str) -> bool:
        """Return whether a tensor holds labels, predictions or an importance."""
        known = name in ("labels", "predictions") or name.startswith("feature_importance/")
        return known or TensorRule.wants(self, name, role)

    def evaluate(self, window: Window) -> Issues:
        """Keep the curves and the last value of each figure, and hand them over."""
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
        if curves := window.state.get("curves"):
            window.details["rounds"] = curves
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
            predictions = roles.get("predictions")
            window.state["figures"] = {"step": at.step, **figures(roles["labels"], predictions)}
            if predictions is not None:
                _add_round(window.state, at.step, roles["labels"], predictions)
        return iter(())


def figures(labels: NDArray[np.float64], predictions: NDArray[np.float64] | None) -> dict[str, object]:
    """Return job type, distribution of labels and, with predictions, what belongs to that job type.

    Args:
        labels: One for each example.
        predictions: A class, a probability or a number for each example; or a score for each class too.

    Returns:
        `job_type`, `label_distribution` and `residuals`; for classes `confusion`, `scores` and, of two
        classes whose predictions are no classes, `roc`.
    """
    kind = quality.kind_of(labels, predictions)
    true, guessed = quality.aligned(labels, predictions)
    if kind == "regression":
        found: dict[str, object] = {"job_type": kind, "label_distribution": quality.histogram(true)}
        return found if guessed is None else {**found, "residuals": quality.residuals(true, guessed)}
    known, counts = np.unique(np.rint(true), return_counts=True)
    shares = {str(int(label)): int(count) for label, count in zip(known, counts, strict=True)}
    found = {"job_type": kind, "label_distribution": shares}
    if guessed is None or not len(true):
        return found
    confusion = quality.confusion(true, guessed)
    found |= {"confusion": confusion, "scores": quality.class_scores(confusion)}
    found["residuals"] = quality.residuals(np.rint(true), np.rint(guessed))
    if kind == "binary" and not np.array_equal(guessed, np.rint(guessed)):
        found["roc"] = quality.roc(true, guessed)
    return found


def _add_round(
    state: State, step: int, labels: NDArray[np.float64], predictions: NDArray[np.float64]
) -> None:
    """Add one saved round to the curves: accuracy of each class, or error in each interval of labels."""
    true, guessed = quality.aligned(labels, predictions)
    if guessed is None or not len(true):
        return
    curves = state.setdefault("curves", {"steps": [], "values": []})
    if quality.kind_of(labels, predictions) == "regression":
        edges = curves.setdefault("label_edges", quality.label_bins(true))
        if len(edges) < 2:
            return
        curves["values"].append(quality.error_by_bin(true, guessed, edges))
    else:
        curves["values"].append(quality.class_accuracy(true, guessed))
    curves["steps"].append(step)
    if len(curves["steps"]) > MOST_ROUNDS:
        curves["steps"], curves["values"] = curves["steps"][::2], curves["values"][::2]


def _shares(scores: dict[str, float]) -> dict[str, float]:
    total = sum(scores.values()) or 1.0
    return {name: scores[name] / total for name in sorted(scores, key=lambda name: (-scores[name], name))}
