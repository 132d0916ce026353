"""Overtraining: the validation loss does not improve any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from holter.rules import Issue, Issues, Window, parameter
from holter.rules.patterns.losses import LossRule, Points


@dataclass(frozen=True, slots=True, kw_only=True)
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

    def evaluate(self, window: Window) -> Issues:
        """Count for each loss the values without a new best."""
        known: dict[str, dict[str, Any]] = window.state.setdefault("series", {})
        new = self.points(window)
        if not new and known and not window.job.ended:
            window.idle = True
            return
        pieces: dict[tuple[int, str], list[Points]] = {}
        for points in new:
            pieces.setdefault((points.rank, points.about), []).append(points)
        for (rank, about), group in sorted(pieces.items()):
            yield from self._judged(window, group, known.setdefault(f"{rank}/{about}", {}))
        if not window.points and window.lack is None:
            self.lacking(window, known=bool(known))

    def _judged(self, window: Window, group: list[Points], state: dict[str, Any]) -> Issues:
        """Process the points of training and evaluation in their order."""
        time = np.concatenate([p.time for p in group])
        which = np.concatenate([np.full(len(p.time), i) for i, p in enumerate(group)])
        place = np.concatenate([np.arange(len(p.time)) for p in group])
        order = np.lexsort((place, which, time))
        for i, j in zip(which[order].tolist(), place[order].tolist(), strict=True):
            points = group[i]
            window.judged(1)
            side = "validation" if points.mode == "eval" else "train"
            mine = state.setdefault(side, {"last": [], "best": None, "step": None, "bad": 0})
            self._count(mine, float(points.value[j]), int(points.step[j]))
            # Reported again only when the patience has run out again, not at every value.
            patience = self.patience_validation if side == "validation" else self.patience_train
            again = mine["bad"] % patience == 0
            if again and self._over(state, side) and self.due(int(points.step[j])):
                yield self._issue_of(points, j, mine, state)

    def _count(self, mine: dict[str, Any], value: float, step: int) -> None:
        mine["last"] = [*mine["last"], value][-self.smooth :]
        now, best = _median(mine["last"]), mine["best"]
        if best is None or now < best - self.delta * (abs(best) if self.relative else 1.0):
            mine["best"], mine["step"], mine["bad"] = now, step, 0
        else:
            mine["bad"] += 1

    def _over(self, state: dict[str, Any], side: str) -> bool:
        limits = {"train": self.patience_train, "validation": self.patience_validation}
        flat = {name: bool(state.get(name, {}).get("bad", 0) >= limit) for name, limit in limits.items()}
        if self.require == "both":
            return all(flat.values())
        if self.require == "any":
            return flat[side]
        return flat[side] and (side == "validation" or "validation" not in state)

    def _issue_of(self, points: Points, j: int, mine: dict[str, Any], state: dict[str, Any]) -> Issue:
        train = state.get("train", {})
        improving = points.mode == "eval" and "bad" in train and train["bad"] < self.patience_train
        patience = self.patience_validation if points.mode == "eval" else self.patience_train
        return self.told(
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


def _median(values: list[float]) -> float:
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2
