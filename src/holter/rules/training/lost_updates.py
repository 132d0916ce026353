"""LostUpdates: rounding of the weights loses the optimizer's updates."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.tensors.shards import SUFFIX, joined
from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.engine.complete_steps import complete_steps
from holter.rules.engine.levels import grade
from holter.rules.patterns.collections import tested
from holter.rules.patterns.layers import listed, new_kinds
from holter.rules.patterns.logged import is_rate, skips, stacked
from holter.schema.tables import GRADIENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table

_COLUMNS = ("kind", "name", "value", "count", "half", "size")
_SIGN, _ADAPTIVE = re.compile("(?i)lion|sign"), re.compile("(?i)adam|lamb|adafactor|rmsprop|nadam")
_NORMS = ("grad_norm", f"grad_norm{SUFFIX}", "grad_norm_clipped")
_LEAST_ADAPTIVE = 0.1
"""Adaptive optimizers move an element by this part of lr at least, on average: |m| / sqrt(v) of pure noise is
0.18 for beta1 = 0.9."""
_NOISE = 1e-6
"""Gradients below it drown in an adaptive optimizer's epsilon."""


@rule_class
class LostUpdates(Rule):
    """Weights in bfloat16 or float16 change by far less than the optimizer's updates.

    The share of elements that stay as they are is not recorded. It is estimated from below: 1 - mean change /
    mean update, which is at least 0.1 x lr for Adam and its kin, lr for Lion, lr x |gradient| for SGD. With a
    copy of the weights in higher precision the mean change is that of the updates, once the copy has wandered
    off the numbers it began with; before, no parameter is judged.
    """

    reads = ("tensors", "scalars", "spans/optimizer", "spans/skipped")
    formula = (
        "for weights whose extremes are all bfloat16 or float16 numbers: 1 - mean change / smallest "
        "expected mean update, over the last `steps` pairs of consecutive saved steps, >= info, warn, or "
        "critical; after 4 x (|weight| / 512 / update)^2 steps"
    )
    advice = (
        "Keep the weights in float32 (autocast with master weights), round stochastically, or raise the "
        "learning rate x batch size."
    )
    packs = ("convergence",)

    info: float = parameter(0.3, low=0, high=1)
    """Share of lost updates from which the rule reports a note."""
    warn: float = parameter(0.6, low=0, high=1)
    """Share of lost updates that is a warning."""
    critical: float = parameter(0.9, low=0, high=1)
    """Share of lost updates that is critical."""
    steps: int = parameter(20, low=2, high=500, unit="saved steps")
    """Number of pairs of consecutive saved steps that are judged together."""
    optimizer: str | None = parameter(None)
    """Class name of the optimizer, for example AdamW; none = the one that the recorder saw."""

    def evaluate(self, window: Window) -> Issues:
        """Compare changes with updates at consecutive saved steps."""
        state = window.state
        for one in complete_steps(
            _rows(window), state.setdefault("rows", {}), _COLUMNS, ended=window.job.ended
        ):
            if state.setdefault("attempt", one.attempt) != one.attempt:
                state.update(attempt=one.attempt, last={}, began=int(one.rows["step"][0]))
            yield from self._judge_steps(window, one.rows)
        if window.points or state.get("judged"):
            state["judged"] = True
            return
        text = (
            "no pairs of successive steps; use --save weights@1 and --save gradients@1 for a stretch of steps"
        )
        window.insufficient("no_input", text)

    def _judge_steps(self, window: Window, rows: Table) -> Issues:
        """Iterate over the steps with weights, and learn everything between two of them at once."""
        steps, done = rows["step"], 0
        for step in np.unique(steps[rows["kind"] == "weight"]).tolist():
            low, high = np.searchsorted(steps, [step, step + 1]).tolist()
            _learn(rows.where(slice(done, low)), window)
            yield from self._step(window, step, rows.where(slice(low, high)))
            done = high
        _learn(rows.where(slice(done, rows.rows)), window)

    def _step(self, window: Window, step: int, rows: Table) -> Issues:
        state, parts = window.state, dict[str, dict[str, float]]()
        rows = joined(rows)
        began = state.setdefault("began", step)
        last: dict[str, int] = state.setdefault("last", {})
        weights = rows.where(rows["kind"] == "weight")
        # The first replica is enough.
        places = {name: i for i, name in reversed(list(enumerate(weights["name"].tolist())))}
        names, weights = list(places), weights.where(np.array(list(places.values()), dtype=np.int64))
        after = np.fromiter((last.get(name) == step - 1 for name in names), bool, len(names))
        last.update(dict.fromkeys(names, step))
        gradients = rows["kind"] == "gradient"
        # Gradients give the size of an update; they are needed only for known changes.
        numbers = rows.where((rows["kind"] != "weight") & (~gradients | bool(after.any())))
        columns = [numbers[name].tolist() for name in ("kind", "name", "value")]
        for kind, name, value in zip(*columns, strict=True):
            if kind == "optimizer":
                state["optimizers"] = sorted({*state.get("optimizers", []), name})
            elif kind == "lr":
                state["lr"] = min(parts.setdefault("lr", {}).get("", math.inf), value)
                parts["lr"][""] = state["lr"]
            elif math.isfinite(value):
                parts.setdefault(kind, {})[name] = value
        if not after.any() or (rows["kind"] == "skipped").any():
            return
        update = self._update(state.get("lr"), state.get("optimizers", []), parts)
        changed: dict[str, list[float]] = {}
        for row in weights.where(after & np.isfinite(weights["value"])).to_rows():
            if size := update.get(row["name"]):
                window.judged(1)
                # A higher-precision copy needs this many steps to move by half a rounding step.
                wandered = 4 * (row["size"] / 512 / size) ** 2
                if row["half"] and step - began >= wandered:
                    changed[row["name"]] = [row["value"] / size, row["count"]]
        if changed:
            yield from self._judge(window, step, changed)

    def _update(
        self, lr: float | None, seen: list[str], parts: dict[str, dict[str, float]]
    ) -> dict[str, float]:
        """Return the smallest mean update of each parameter for which it is known."""
        if not lr or not math.isfinite(lr) or lr <= 0:
            return {}
        name = self.optimizer or (seen[0] if len(seen) == 1 else "")
        numbers = parts.get("norm", {})
        norm, clipped = numbers.get("grad_norm", 0.0), numbers.get("grad_norm_clipped", math.inf)
        clip = min(1.0, clipped / norm) if norm > 0 else 1.0
        gradients = {
            n.removeprefix(GRADIENT): size for n, size in parts.get("gradient", {}).items() if size > 0
        }
        if _SIGN.search(name):
            return dict.fromkeys(gradients, lr)
        if _ADAPTIVE.search(name):
            return {n: _LEAST_ADAPTIVE * lr for n, size in gradients.items() if size * clip > _NOISE}
        return {n: lr * size * clip for n, size in gradients.items()} if "SGD" in name.upper() else {}

    def _judge(self, window: Window, step: int, changed: dict[str, list[float]]) -> Issues:
        state = window.state
        total = sum(count for _, count in changed.values())
        kept = sum(min(1.0, ratio) * count for ratio, count in changed.values()) / total if total else 1.0
        last = state["kept"] = [*state.get("kept", []), [step, kept]][-self.steps :]
        lost = 1 - float(np.mean([share for _, share in last]))
        state["held"] = state.get("held", 0) + 1 if len(last) == self.steps and lost >= self.info else 0
        if state["held"] < 2:
            return
        severity = grade(lost, info=self.info, warning=self.warn, critical=self.critical)
        worst = [name for name, (ratio, _) in changed.items() if ratio < 1 - self.info]
        yield self.issue(
            f"rounding to half precision loses at least {lost:.0%} of the updates of {len(worst)} parameters"
            + (f": {listed(worst)}" if worst else ""),
            severity=severity,
            step_start=int(last[0][0]),
            step_end=step,
            evidence={"lost_share": lost, "parameters": sorted(worst)[:50], "lr": state.get("lr")},
        )


def _learn(rows: Table, window: Window) -> None:
    """Read the optimizer and its learning rate from steps without saved weights."""
    if not rows.rows:
        return
    state = window.state
    kind, step = rows["kind"], rows["step"]
    state.setdefault("began", int(step[0]))
    if names := set(rows["name"][kind == "optimizer"].tolist()):
        state["optimizers"] = sorted({*state.get("optimizers", []), *names})
    if (rates := kind == "lr").any():
        newest = rates & (step == step[rates][-1])
        state["lr"] = float(np.fmin.reduce(rows["value"][newest], initial=math.inf))


def _rows(window: Window) -> Table:
    """Collect the rows with changes and updates."""
    tensors, scalars = window.new("tensors"), window.new("scalars")
    graded = new_kinds(window)[1]
    lr = scalars.where(tested(scalars["name"], is_rate))
    norms = scalars.where(tested(scalars["name"], _NORMS.__contains__))
    # Of a sharded tensor the first part is enough: its change is compared with its own gradient.
    mine = (tensors["state"] == "") & (tensors["part"] == 0)
    weights = tensors.where((tensors["role"] == "weight") & mine & ~graded)
    gradients = tensors.where(graded & mine)
    skipped, optimizers = skips(window), window.spans_of("optimizer", new=True)
    change = {"value": weights["delta_abs_mean"], "size": weights["abs_mean"], "half": _half(weights)}
    parts: list[tuple[str, Table, dict[str, NDArray[Any]]]] = [
        ("weight", weights, {**change, "count": weights["count"]}),
        ("gradient", gradients, {"value": gradients["abs_mean"]}),
        ("lr", lr, {"value": lr["value"]}),
        ("norm", norms, {"value": norms["value"]}),
        ("skipped", skipped, {}),
        ("optimizer", optimizers, {}),
    ]
    return stacked(parts, value=np.float64, count=np.int64, size=np.float64, half=np.bool_)


def _half(weights: Table) -> NDArray[np.bool_]:
    """Return which tensors have half-precision extremes; 1 in 2^26 does by chance."""
    low, high = (weights[name].astype(np.float32).view(np.uint32) for name in ("min", "max"))
    bits = low | high
    varied = np.isfinite(weights["min"]) & np.isfinite(weights["max"]) & (weights["min"] < weights["max"])
    return np.asarray(varied & (((bits & 0xFFFF) == 0) | ((bits & 0x1FFF) == 0)))
