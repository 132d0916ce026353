"""VanishingGradient: gradients are too small to train some layers."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Window, parameter, rule_class
from holter.rules.engine.step_rows import StepRows, by_step
from holter.rules.patterns.layers import is_gradient
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensors import TensorRule
from holter.schema.tables import GRADIENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.schema.table import Row, Table

LEAST_UPDATE = 1e-7
"""A gradient below this share of its weights changes nothing in single precision."""


@rule_class
class VanishingGradient(TensorRule):
    """Gradients of some layers are so small that these layers do not learn."""

    formula = (
        "modern: rms(g) < relative_threshold x median rms(g) of all parameters, or rms(g) < threshold and <"
        " 1e-7 x the rms of the weights; classic: mean(|g|) < threshold"
    )
    advice = (
        "Compare the listed layers with the rest: depth, normalisation, activation and learning rate. Add "
        "residual connections or normalisation, or freeze layers that should not learn."
    )
    packs = ("convergence", "sagemaker")
    roles = ("grad", "weight", "embedding", "bias", "norm_param")
    statistics = ("mean", "std", "abs_mean")
    save = "gradients@100"

    threshold: float = parameter(1e-7, above=0)
    """A gradient with a smaller root mean square (classic: mean absolute value) is too small."""
    relative_threshold: float | None = parameter(1e-4, classic=None, above=0, high=1)
    """A smaller share of the median root mean square is also too small; none = not checked."""
    min_fraction_layers: float = parameter(0.0, low=0, high=1)
    """Share of the gradients that must be too small; 0 = one is enough."""
    include_frozen: bool = parameter(False, classic=True)
    """Also judge frozen and unused parameters, and steps that a loss scaler skipped."""
    successive: int = parameter(3, classic=1, low=1, aliases=("consecutive",))
    """At how many evaluations of the same tensor in a row the condition must hold."""

    def doubtful(self, window: Window, table: Table, edges: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which gradients are far below the largest one, and so may be far below the median."""
        judged = table["good"] & (self.include_frozen | (table["state"] == ""))
        gradient = judged & is_gradient(table)
        if self.relative_threshold is None:
            small = gradient & (table["abs_mean"].astype(np.float64) < self.threshold)
        else:
            size = np.hypot(table["mean"].astype(np.float64), table["std"])
            largest = by_step(np.fmax, np.where(gradient, size, 0.0), edges)
            small = gradient & (size < np.maximum(self.threshold, self.relative_threshold * largest))
        # The rule reports when there are no gradients at all.
        return np.asarray(small | ~by_step(np.logical_or, gradient, edges))

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Compare each gradient with the limit, and in the modern profile with the others and its weight."""
        rows = [r for r in self.rows(window, at) if self.include_frozen or r["state"] == ""]
        gradients = [r for r in rows if r["role"] == "grad" or r["name"].startswith(GRADIENT)]
        if not gradients:
            window.insufficient(
                "no_match", f"no gradient with finite elements was recorded; run with --save {self.save}"
            )
            return
        small = (
            self._absolute(gradients) if self.relative_threshold is None else self._relative(gradients, rows)
        )
        if small and len(small) / len(gradients) >= self.min_fraction_layers:
            yield from small

    def _absolute(self, gradients: list[Row]) -> list[TensorFinding]:
        return [
            _finding(row, "mean absolute value", row["abs_mean"], self.threshold)
            for row in gradients
            if row["abs_mean"] < self.threshold
        ]

    def _relative(self, gradients: list[Row], rows: list[Row]) -> list[TensorFinding]:
        sizes = {row["name"]: (row["role"], _rms(row)) for row in rows}
        judged = []
        for row in gradients:
            name = row["name"].removeprefix(GRADIENT)
            # A weight that was not recorded counts as a weight of ordinary size.
            role, weight = sizes.get(name, ("bias" if name.endswith("bias") else "weight", 1.0))
            if role not in ("bias", "norm_param") and math.isfinite(_rms(row)):
                judged.append((row, _rms(row), weight))
        if not judged:
            return []
        limit = (self.relative_threshold or 0.0) * statistics.median(size for _, size, _ in judged)
        found = []
        for row, size, weight in judged:
            if size < self.threshold and size / max(weight, 1e-8) < LEAST_UPDATE:
                found.append(_finding(row, "root mean square", size, self.threshold))
            elif size < limit:
                found.append(_finding(row, "root mean square", size, limit))
        return found


def _finding(row: Row, what: str, value: float, limit: float) -> TensorFinding:
    return TensorFinding(row["name"], what, value, "<", limit, role=row["role"])


def _rms(row: Row) -> float:
    return math.hypot(row["mean"], row["std"])
