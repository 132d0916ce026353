"""Overtraining: the validation loss does not improve any more."""

from __future__ import annotations

import math
import statistics
from typing import TypedDict

from holter.rules import Issue, Issues, Window, parameter, rule_class
from holter.rules.patterns.losses import LossRule, Points


class _Values(TypedDict):
    """The last values of a loss in training or evaluation."""

    last: list[float]
    best: float
    step: int
    """The step of the best value."""
    bad: int
    """The number of values since then."""


@rule_class
class Overtraining(LossRule):
    """The validation loss (or the training loss without one) has had no new best for long."""

    severity = "info"
    formula = (
        "no value below best - delta (modern: best - delta x |best|, medians of `smooth` values) for "
        "`patience` values in a row"
    )
    advice = (
        "Stop and keep the checkpoint of the best step, or lower the learning rate. If training still "
        "improves, the model overfits: regularise or add data."
    )
    packs = ("convergence", "sagemaker")

    patience_train: int = parameter(20, classic=5, low=1, unit="values")
    """Training values without a new best that are allowed."""
    patience_validation: int = parameter(10, low=1, unit="values")
    """Validation values without a new best that are allowed."""
    delta: float = parameter(0.001, classic=0.01, low=0)
    """By how much a value must be lower to be a new best."""
    relative: bool = parameter(True, classic=False)
    """Take delta as a share of the best value."""
    smooth: int = parameter(5, classic=1, low=1, unit="values")
    """Compare medians of this many values."""
    require: str = parameter("validation", choices=("validation", "any", "both"))
    """Whose patience must run out: validation (training without evaluations), either, or both."""

    def judge_group(self, window: Window, group: list[Points], state: dict[str, _Values]) -> Issues:
        """Process the points of training and evaluation in their order."""
        places = [(int(time), i, j) for i, one in enumerate(group) for j, time in enumerate(one.time)]
        for _, i, j in sorted(places):
            points = group[i]
            window.judged(1)
            side = "validation" if points.mode == "eval" else "train"
            mine = state.setdefault(side, {"last": [], "best": math.inf, "step": -1, "bad": 0})
            self._count(mine, float(points.value[j]), int(points.step[j]))
            # Reported again only when the patience has run out again, not at every value.
            patience = self.patience_validation if side == "validation" else self.patience_train
            again = mine["bad"] % patience == 0
            if again and self._over(state, side) and self.due(int(points.step[j])):
                yield self._issue_of(points, j, mine, state)

    def _count(self, mine: _Values, value: float, step: int) -> None:
        mine["last"] = [*mine["last"], value][-self.smooth :]
        now, best = statistics.median(mine["last"]), mine["best"]
        if best == math.inf or now < best - self.delta * (abs(best) if self.relative else 1.0):
            mine["best"], mine["step"], mine["bad"] = now, step, 0
        else:
            mine["bad"] += 1

    def _over(self, state: dict[str, _Values], side: str) -> bool:
        limits = {"train": self.patience_train, "validation": self.patience_validation}
        flat = {name: name in state and state[name]["bad"] >= limit for name, limit in limits.items()}
        if self.require == "both":
            return all(flat.values())
        if self.require == "any":
            return flat[side]
        return flat[side] and (side == "validation" or "validation" not in state)

    def _issue_of(self, points: Points, j: int, mine: _Values, state: dict[str, _Values]) -> Issue:
        improving = points.mode == "eval" and "train" in state and state["train"]["bad"] < self.patience_train
        patience = self.patience_validation if points.mode == "eval" else self.patience_train
        return self.point_issue(
            points,
            j,
            f"{points.name} has had no new best for {mine['bad']} values since {mine['best']:.5g} at step "
            f"{mine['step']}" + ("; training still improves" if improving else ""),
            step_start=mine["step"],
            evidence={
                "name": points.name, "mode": points.mode, "best": mine["best"], "best_step": mine["step"],
                "value": mine["bad"], "comparator": ">=", "threshold": patience,
                "training_still_improves": improving,
            },
        )  # fmt: skip
