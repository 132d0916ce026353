"""RankDataImbalance: ranks receive unequal amounts of data."""

from __future__ import annotations

from collections import Counter

import numpy as np

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.engine.levels import severity_of

_UNITS = ("tokens", "samples")
_WARMUP = 10
_OPEN_STEPS = 100
"""Number of steps that may wait for all ranks."""


@rule_class
class RankDataImbalance(Rule):
    """In most steps one rank has far more tokens or samples than the others, which then wait for it."""

    reads = ("scalars",)
    formula = (
        "median over the last steps of (largest amount - median amount of the ranks) / median amount >= "
        "info, warning, or critical"
    )
    advice = "Batch by number of tokens, sort by length within a global batch, or balance the shards."
    packs = ("distributed",)
    every_s = 60.0
    consecutive = 2

    info: float | None = parameter(15.0, low=0, unit="%", aliases=("threshold",))
    """Excess from which the rule reports a note."""
    warning: float | None = parameter(30.0, low=0, unit="%")
    """Excess that is a warning."""
    critical: float | None = parameter(60.0, low=0, unit="%")
    """Excess that is critical."""
    window: int = parameter(200, low=1, unit="steps")
    """Number of recent steps that are judged."""
    min_steps: int = parameter(50, low=1, unit="steps")
    """Minimum number of steps; fewer are not judged."""

    def evaluate(self, window: Window) -> Issues:
        """Judge tokens if they are recorded, otherwise samples."""
        state = window.state
        if window.unchanged("scalars"):
            return
        self._learn(window)
        kinds = state["kinds"]
        name = next((unit for unit in _UNITS if unit in kinds), None)
        if name is None:
            return window.insufficient("no_input", "no rank reports tokens or samples per step")
        known = kinds[name]
        if len(known["ranks"]) < 2:
            return window.insufficient("no_match", "the rule compares two ranks", len(known["ranks"]), 2)
        steps: list[list[float]] = known["steps"]
        if len(steps) < self.min_steps:
            return window.too_few(f"too few steps with {name} of all ranks", len(steps), self.min_steps)
        window.judged(len(steps))
        excess = 100.0 * float(np.median([step[1] for step in steps]))
        severity = severity_of(excess, self.info, self.warning, self.critical)
        if severity is None:
            return
        counts = Counter(int(step[2]) for step in steps)
        rank, times = max(counts.items(), key=lambda item: (item[1], -item[0]))
        always = times >= 0.6 * len(steps)
        who = f"rank {rank} has" if always else "some rank has"
        yield self.issue(
            f"{who} {excess:.0f} % more {name} per step than the others",
            severity=severity,
            rank=rank if always else None,
            step_start=int(steps[0][0]),
            step_end=int(steps[-1][0]),
            time_end=window.end,
            evidence={
                "excess_pct": excess,
                "unit": name,
                "most_often_rank": rank,
                "most_often_pct": 100.0 * times / len(steps),
                "ranks": len(known["ranks"]),
                "steps": len(steps),
            },
        )

    def _learn(self, window: Window) -> None:
        """Collect each step's amounts by rank; once all ranks report, keep the excess and its rank."""
        kinds = window.state.setdefault("kinds", {})
        scalars = window.new("scalars")
        value = scalars["value"]
        chosen = np.isin(scalars["name"].astype(str), _UNITS) & np.isfinite(value) & (value >= 0)
        scalars = scalars.where(chosen & (scalars["mode"] != "eval")).sorted("time", "step", "rank", "value")
        columns = (scalars[c].tolist() for c in ("name", "step", "rank", "value"))
        for name, step, rank, amount in zip(*columns, strict=True):
            known = kinds.setdefault(name, {"ranks": [], "open": {}, "steps": []})
            if rank not in known["ranks"]:
                known["ranks"] = sorted([*known["ranks"], rank])
            known["open"].setdefault(str(step), {})[str(rank)] = amount
        for known in kinds.values():
            opened: dict[str, dict[str, float]] = known["open"]
            for step in sorted(opened, key=int):
                if len(opened[step]) >= max(len(known["ranks"]), 2):
                    amounts = opened.pop(step)
                    # While new ranks still appear, steps are incomplete.
                    if int(step) >= _WARMUP:
                        known["steps"] = [*known["steps"], _excess(int(step), amounts)][-self.window :]
            for step in sorted(opened, key=int)[:-_OPEN_STEPS]:
                del opened[step]


def _excess(step: int, amounts: dict[str, float]) -> list[float]:
    median = float(np.median(list(amounts.values())))
    rank = max(amounts, key=lambda r: (amounts[r], -int(r)))
    return [step, (amounts[rank] - median) / median if median > 0 else 0.0, int(rank)]
