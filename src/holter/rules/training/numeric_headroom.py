"""Numbers that come close to the limits of their type, before any becomes NaN."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Issue, Issues, Severity, Window, parameter, rule_class
from holter.rules.engine.complete_steps import complete_steps
from holter.rules.patterns.collections import tested
from holter.rules.patterns.layers import listed, new_kinds
from holter.rules.patterns.logged import PatternRule, stacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.schema.table import Table

_COLUMNS = ("name", "kind", "min", "max", "nonzero", "tiny")
_FLOAT16 = 65504.0
_MASKS = (-_FLOAT16, -10000.0)
"""What attention masks are filled with; a smallest element that is one of them is no activation."""
_BUCKET, _BUCKETS = 100, 11
_SOME = 100
"""Minimum number of non-zero elements for a share; smaller values may grow without a finding."""
_LOOKED_AT = ("act_in", "act_out", "input", "output", "logits")
_SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
_LEVELS = {
    "over": (0.1, 0.25, 0.5),
    "under": (0.2, 0.5, 0.9),
    "logits": (50.0, 100.0),
    "growth": (np.inf, 10.0),
}
_TEXTS = {
    "over": "reaches {value:.3g} of the largest float16",
    "under": "has {value:.0%} of its elements below the smallest normal number of its type",
    "logits": "reaches {value:.3g}, where softmax picks one and the rest get no gradient",
    "growth": "has grown {value:.3g}-fold within 1000 steps",
}


@rule_class
class NumericHeadroom(PatternRule):
    """Activations near the largest number of their type, gradients below the smallest, or high logits."""

    reads = ("tensors", "scalars")
    description = "activations, gradients or attention logits are close to the limits of their number type"
    formula = (
        "at two saved steps in a row: largest activation / 65504 (float16) >= 0.1, 0.25, 0.5; share of a "
        "gradient's non-zero elements below the smallest normal number >= 0.2, 0.5, 0.9; largest attention "
        "logit >= 50, 100: note, warning, critical; after start_steps an activation that grows 10 x within "
        "1,000 steps: warning"
    )
    advice = (
        "Use bfloat16, normalise queries and keys before attention (QK norm), raise the loss scale, or "
        "lower the learning rate."
    )
    packs = ("convergence",)
    patterns = ("logits",)

    dtype: str | None = parameter(None, choices=("float16", "bfloat16", "float32"))
    """Type of the activations; none = float16 if a loss scale above 1 is logged."""
    logits: str = parameter(r"(?i)att(entio)?n.*(logits|scores)")
    """Pattern of the attention logits among the tensors, anywhere in their names."""
    start_steps: int = parameter(1000, low=0, unit="steps")
    """First steps, in which activations may grow."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each saved step, and report the worst tensor of each kind."""
        state = window.state
        for one in complete_steps(
            self._rows(window), state.setdefault("rows", {}), _COLUMNS, ended=window.job.ended
        ):
            for step, rows in one.steps():
                if (rows["kind"] == "scale").any():
                    state["scaled"] = state.get("scaled", False) or bool((rows["max"] > 1).any())
                yield from self._step(window, step, rows.where(rows["kind"] != "scale"))
        if not state.get("seen"):
            text = (
                "no activation and no gradient is recorded; use --save gradients@100 --save activations@100"
            )
            window.insufficient("no_input", text)

    def _rows(self, window: Window) -> Table:
        tensors, scalars = window.new("tensors"), window.new("scalars")
        activation = tested(tensors["role"], lambda role: role.startswith(_LOOKED_AT))
        kind = np.where(activation, "activation", "").astype(object)
        kind[new_kinds(window)[1] & (tensors["state"] == "")] = "gradient"
        kind[tested(tensors["name"], re.compile(self.logits).search)] = "logits"
        scales = scalars.where(scalars["name"] == "loss_scale")
        parts = [("scale", scales, {"min": scales["value"], "max": scales["value"]})]
        for one in ("activation", "gradient", "logits"):
            mine = tensors.where((kind == one) & (tensors["count"] > 0))
            nonzero = mine["count"] - mine["nan"] - mine["posinf"] - mine["neginf"] - mine["zeros"]
            columns = {"min": mine["min"], "max": mine["max"], "nonzero": nonzero, "tiny": mine["tiny"]}
            parts.append((one, mine, columns))
        return stacked(parts, min=np.float32, max=np.float32, nonzero=np.int64, tiny=np.int64)

    def _step(self, window: Window, step: int, rows: Table) -> Issues:
        state = window.state
        if not rows.rows:
            return
        state["seen"] = True
        start = state.setdefault("start", step)
        window.judged(rows.rows)
        found: dict[str, dict[str, float]] = {code: {} for code in _LEVELS}
        half = self.dtype == "float16" or (self.dtype is None and state.get("scaled", False))
        held, state["held"] = state.get("held", {}), {}
        for code, which, values in self._values(rows, half):
            if not held.get(code):  # a value below all levels matters only after a finding
                which = which & (values >= min(_LEVELS[code]))
            pairs = zip(rows["name"][which].tolist(), values[which].tolist(), strict=True)
            for name, value in pairs if which.any() else ():
                found[code][name] = max(value, found[code].get(name, 0.0))
        if step - start >= self.start_steps:
            grows = rows.where((rows["kind"] != "gradient") & np.isfinite(rows["max"]))
            sizes = state.setdefault("sizes", {}) if grows.rows else {}
            for name, most in zip(grows["name"].tolist(), grows["max"].tolist(), strict=True):
                grown = _growth(step, most, sizes.setdefault(name, []))
                found["growth"][name] = max(grown, found["growth"].get(name, 0.0))
        for code, levels in _LEVELS.items():
            over = {name: value for name, value in found[code].items() if value >= min(levels)}
            before = held.get(code, {})
            state["held"][code] = {n: v for n, v in before.items() if n not in found[code]} | over
            if reported := {n: min(value, before[n]) for n, value in over.items() if n in before}:
                yield self._issue(code, step, reported)

    def _values(
        self, rows: Table, half: bool
    ) -> Iterator[tuple[str, NDArray[np.bool_], NDArray[np.float64]]]:
        """Yield the comparisons: code, rows and values."""
        low, high = (rows[name].astype(np.float64) for name in ("min", "max"))
        kinds, finite = rows["kind"], np.isfinite(low) & np.isfinite(high)
        gradient, logits = kinds == "gradient", kinds == "logits"
        tiny = rows["tiny"] / np.maximum(rows["nonzero"], 1)
        yield "under", gradient & (rows["nonzero"] >= _SOME), tiny
        yield "logits", logits & finite, high
        mask = np.isin(low, _MASKS)
        over = np.maximum(high, np.where(mask, 0.0, -low)) / _FLOAT16
        yield "over", ~gradient & ~logits & finite & half, over

    def _issue(self, code: str, step: int, reported: dict[str, float]) -> Issue:
        worst = max(sorted(reported), key=lambda name: reported[name])
        value = reported[worst]
        severity = _SEVERITIES[sum(value >= level for level in sorted(_LEVELS[code])) - 1]
        severity = "warning" if code == "growth" else severity
        others = f" (and {listed(set(reported) - {worst})})" if len(reported) > 1 else ""
        return self.issue(
            f"{worst}{others} {_TEXTS[code].format(value=value)} at step {step}",
            code=code,
            severity=severity,
            tensor=worst if len(reported) == 1 else None,
            step_start=step,
            step_end=step,
            evidence={"tensors": dict(sorted(reported.items(), key=lambda item: (-item[1], item[0]))[:20])},
        )


def _growth(step: int, size: float, buckets: list[list[float]]) -> float:
    """Return how many times larger a tensor is than in the 1000 steps before, by buckets of 100 steps.

    The newest bucket's values are compared with an older bucket's largest one, so one outlier does not count.
    """
    number = step // _BUCKET
    if not buckets or buckets[-1][0] != number:
        buckets.append([number, size, size])
    buckets[-1][1], buckets[-1][2] = min(size, buckets[-1][1]), max(size, buckets[-1][2])
    buckets[:] = [b for b in buckets if number - _BUCKETS < b[0] <= number]
    if len(buckets) < 3 or buckets[-1][1] < _SOME:
        return 0.0
    least = min(b[2] for b in buckets[:-1])
    return buckets[-1][1] / least if least > 0 else 0.0
