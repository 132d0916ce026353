"""UnevenGradientScale: gradient scales differ widely between layers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.tensors.parts import BASIS, whole
from holter.rules import Issues, Rule, Severity, Window, parameter, rule_class
from holter.rules.engine.complete_steps import complete_steps
from holter.rules.patterns.layers import depths, is_gradient, new_kinds, parameters_of
from holter.rules.patterns.speed import tied_ranks
from holter.rules.patterns.tensor_columns import ByName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.schema.table import Table

_COLUMNS = ("name", "role", "mode", "part", "parts", *BASIS)
_SAVED, _DEEP = 5, 6


@rule_class
class UnevenGradientScale(Rule):
    """The gradients of some layers are far smaller than those of others, relative to their weights."""

    reads = ("tensors",)
    formula = (
        "q = rms(gradient) / rms(weight) of each matrix, median of 5 saved steps: log10(p95(q) / p05(q)) >="
        " info or warn; or median q of the first (last) third of the layers < 1e-4 x the median of all "
        "while log q rises (falls) with depth (Spearman > 0.7): warning; at two saved steps in a row"
    )
    advice = (
        "Check the normalisation, activation and initialisation of these layers; residual connections help."
    )
    packs = ("convergence",)

    info: float = parameter(3.0, above=0, unit="decades")
    """Spread from which the rule reports a note."""
    warn: float = parameter(5.0, above=0, unit="decades")
    """Spread that is a warning."""
    start_steps: int = parameter(100, low=0, unit="steps")
    """First steps that are ignored, so that layers that start with zeros catch up."""
    min_layers: int = parameter(6, low=3)
    """Number of matrices that the rule needs."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each step at which gradients were saved."""
        state, new = window.state, window.new("tensors")
        matrix = new_kinds(window)[1] | (new["role"] == "weight")
        rows = new.where(matrix & (new["state"] == ""))
        for one in complete_steps(rows, state.setdefault("rows", {}), _COLUMNS, ended=window.job.ended):
            for step, at in one.steps():
                yield from self._step(window, step, at)
        if not state.get("gradients") or not state.get("weights", {}).get("names"):
            text = (
                "gradients and weights are needed together; use --save gradients@100 and --save weights@100"
            )
            window.insufficient("no_input", text)
        elif not window.points:
            most = len(state.get("ratios", {}).get("names", ()))
            window.insufficient(
                "too_few_points", "too few matrices or steps", have=most, need=self.min_layers
            )

    def _step(self, window: Window, step: int, rows: Table) -> Issues:
        state, rows = window.state, whole(rows)
        start = state.setdefault("start", step)
        rms = np.hypot(rows["std"].astype(np.float64), rows["mean"].astype(np.float64))
        gradient = is_gradient(rows)
        weights = ByName(state.setdefault("weights", {}), {"size": np.float64})
        own, _ = weights.where(rows["name"][~gradient].tolist())
        weights.columns["size"][own] = rms[~gradient]
        weights.keep()
        sizes = dict(zip(weights.names, weights.columns["size"].tolist(), strict=True))
        # The last replica counts.
        got = dict(zip(parameters_of(rows["name"][gradient].tolist()), rms[gradient].tolist(), strict=True))
        state["gradients"] = state.get("gradients", False) or bool(got)
        names = sorted(got)
        size = np.array([got[name] for name in names])
        weight = np.array([sizes.get(name, 0.0) for name in names])
        if not got or step - start < self.start_steps:
            return
        known = self._middles(window, names, size, weight)
        if len(known) < self.min_layers:
            return
        window.judged(len(known))
        held, state["held"] = state.get("held", {}), {}
        values = np.array(list(known.values()))
        spread = float(np.quantile(values, 0.95) - np.quantile(values, 0.05))
        ordered = sorted(known, key=lambda name: (known[name], name))
        evidence = {
            "decades": spread,
            "smallest": ordered[:5],
            "largest": ordered[-5:],
            "matrices": len(known),
        }
        for code, severity, text, trend in self._wrong(known, spread):
            state["held"][code] = True
            if held.get(code):
                yield self.issue(
                    f"{text} at step {step}", code=code, severity=severity, step_start=step, step_end=step,
                    evidence=evidence if trend is None else {**evidence, "spearman": trend},
                )  # fmt: skip

    def _middles(
        self, window: Window, names: list[str], size: NDArray[np.float64], weight: NDArray[np.float64]
    ) -> dict[str, float]:
        """Return the median of each matrix's last log ratios; a matrix without a ratio starts again."""
        good = np.isfinite(size) & np.isfinite(weight) & (size > 0) & (weight > 0)
        last = [f"last{i}" for i in range(_SAVED)]
        kept = window.state.setdefault("ratios", {})
        ratios = ByName(kept, {"count": np.int64, **dict.fromkeys(last, np.float64)})
        places, _ = ratios.where(names)
        count = ratios.columns["count"]
        count[places[~good]] = 0
        places = places[good]
        for new, old in zip(last[:0:-1], last[-2::-1], strict=True):
            ratios.columns[new][places] = ratios.columns[old][places]
        ratios.columns[last[0]][places] = np.log10(size[good] / weight[good])
        count[places] = np.minimum(count[places] + 1, _SAVED)
        ratios.keep()
        table, counts = np.column_stack([ratios.columns[name][places] for name in last]), count[places]
        table[np.arange(_SAVED) >= counts[:, None]] = np.inf
        table.sort(axis=1)
        row = np.arange(len(places))
        middle = (table[row, (counts - 1) // 2] + table[row, counts // 2]) / 2
        return dict(zip(itertools.compress(names, good.tolist()), middle.tolist(), strict=True))

    def _wrong(
        self, known: dict[str, float], spread: float
    ) -> Iterator[tuple[str, Severity, str, float | None]]:
        """Yield code, severity and text of what is wrong, with the trend over depth if it matters."""
        if spread >= self.info:
            severity: Severity = "warning" if spread >= self.warn else "info"
            yield "spread", severity, f"gradients of layers differ by {spread:.1f} decades", None
        deep = depths(known)
        if len(set(deep.values())) < _DEEP:
            return
        names = sorted(deep, key=lambda name: (deep[name], name))
        by_depth = np.array([known[name] for name in names])
        trend = _spearman(np.array([deep[name] for name in names], dtype=float), by_depth)
        third, middle = max(1, len(names) // 3), float(np.median(list(known.values())))
        for code, side, part, sign in (
            ("vanishing", "first", by_depth[:third], 1.0),
            ("exploding", "last", by_depth[-third:], -1.0),
        ):
            below = middle - float(np.median(part))
            if below > 4 and sign * trend > 0.7:
                text = f"gradients of the {side} third of the layers are {below:.1f} decades below the others"
                yield f"{code}_with_depth", "warning", text, trend


def _spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the rank correlation of two series; 0 if one is constant."""
    x, y = tied_ranks(first), tied_ranks(second)
    return float(np.corrcoef(x, y)[0, 1]) if np.ptp(x) and np.ptp(y) else 0.0
