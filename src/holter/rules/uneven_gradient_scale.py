"""Layers whose gradients, measured by their weights, differ by many orders of magnitude."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.rules import Issue, Rule, Severity, Window, parameter
from holter.rules._layers import depths, is_gradient, of
from holter.rules._settled import settled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.schema.table import Table

_COLUMNS = ("name", "role", "mean", "std")
_SAVED, _DEEP = 5, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenGradientScale(Rule):
    """The gradients of some layers are far smaller than those of others, relative to their weights."""

    reads = ("tensors",)
    category = "training"
    description = "gradient scales differ widely between layers"
    formula = (
        "q = rms(gradient) / rms(weight) of each matrix, median of 5 saved steps; log10 of p95(q) / p05(q) "
        ">= info, warn; or the median q of the first (last) third of the layers < 1e-4 x that of all while "
        "log q rises (falls) with depth, Spearman > 0.7: warning; at two saved steps in a row"
    )
    advice = "Check normalization, activation and initialization of these layers; residual connections help."
    packs = ("convergence",)

    info: float = parameter(3.0, above=0, unit="decades")
    """Spread that is told as information."""
    warn: float = parameter(5.0, above=0, unit="decades")
    """Spread that is a warning."""
    start_steps: int = parameter(100, low=0, unit="steps")
    """First steps, in which layers that begin with zeros catch up."""
    min_layers: int = parameter(6, low=3)
    """So many matrices are needed to judge."""

    def evaluate(self, window: Window) -> Iterator[Issue]:
        """Judge each step at which gradients were saved."""
        state, new = window.state, window.new("tensors")
        matrix = is_gradient(new) | (new["role"] == "weight")
        rows = new.where(matrix & (new["state"] == ""))
        for one in settled(rows, state.setdefault("rows", {}), _COLUMNS, ended=window.job.ended):
            for step, at in one.steps():
                yield from self._step(window, step, at)
        if not state.get("gradients") or not state.get("weights"):
            text = (
                "gradients and weights are needed together; use --save gradients@100 and --save weights@100"
            )
            window.insufficient("no_input", text)
        elif not window.points:
            most = len(state.get("ratios", {}))
            window.insufficient(
                "too_few_points", "too few matrices or steps", have=most, need=self.min_layers
            )

    def _step(self, window: Window, step: int, rows: Table) -> Iterator[Issue]:
        state = window.state
        start = state.setdefault("start", step)
        weights: dict[str, float] = state.setdefault("weights", {})
        ratios: dict[str, list[float]] = state.setdefault("ratios", {})
        rms = np.hypot(rows["std"].astype(np.float64), rows["mean"].astype(np.float64))
        gradient = is_gradient(rows)
        weights |= dict(zip(rows["name"][~gradient].tolist(), rms[~gradient].tolist(), strict=True))
        state["weights"] = weights
        got = dict(zip(map(of, rows["name"][gradient].tolist()), rms[gradient].tolist(), strict=True))
        state["gradients"] = state.get("gradients", False) or bool(got)
        if not got or step - start < self.start_steps:
            return
        for name, size in sorted(got.items()):
            weight = weights.get(name, 0.0)
            if math.isfinite(size) and math.isfinite(weight) and size > 0 and weight > 0:
                last = ratios.setdefault(name, [])
                last.append(math.log10(size / weight))
                del last[:-_SAVED]
            else:
                ratios.pop(name, None)
        known = {name: float(np.median(last)) for name, last in sorted(ratios.items()) if name in got}
        if len(known) < self.min_layers:
            return
        window.judged(len(known))
        held, state["held"] = state.get("held", {}), {}
        for code, severity, text, evidence in self._wrong(known):
            state["held"][code] = True
            if held.get(code):
                yield self.issue(
                    f"{text} at step {step}", code=code, severity=severity, step_start=step, step_end=step,
                    evidence=evidence,
                )  # fmt: skip

    def _wrong(self, known: dict[str, float]) -> Iterator[tuple[str, Severity, str, dict[str, Any]]]:
        values = np.array(list(known.values()))
        spread = float(np.quantile(values, 0.95) - np.quantile(values, 0.05))
        ordered = sorted(known, key=lambda name: (known[name], name))
        evidence = {
            "decades": spread,
            "smallest": ordered[:5],
            "largest": ordered[-5:],
            "matrices": len(known),
        }
        if spread >= self.info:
            severity: Severity = "warning" if spread >= self.warn else "info"
            yield "spread", severity, f"gradients of layers differ by {spread:.1f} decades", evidence
        deep = depths(known)
        if len(set(deep.values())) < _DEEP:
            return
        names = sorted(deep, key=lambda name: (deep[name], name))
        by_depth = np.array([known[name] for name in names])
        trend = _spearman(np.array([deep[name] for name in names], dtype=float), by_depth)
        third, middle = max(1, len(names) // 3), float(np.median(values))
        for code, part, sign in (
            ("vanishing", by_depth[:third], 1.0),
            ("exploding", by_depth[-third:], -1.0),
        ):
            below = middle - float(np.median(part))
            if below > 4 and sign * trend > 0.7:
                side = "first" if sign > 0 else "last"
                text = f"gradients of the {side} third of the layers are {below:.1f} decades below the others"
                yield f"{code}_with_depth", "warning", text, {**evidence, "spearman": trend}


def _spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the correlation of the ranks of two series; 0 where one does not vary."""
    ranks = [np.unique(v, return_inverse=True, return_counts=True) for v in (first, second)]
    middle = [(np.cumsum(counts) - (counts - 1) / 2)[where] for _, where, counts in ranks]
    if np.ptp(middle[0]) == 0 or np.ptp(middle[1]) == 0:
        return 0.0
    return float(np.corrcoef(middle[0], middle[1])[0, 1])
