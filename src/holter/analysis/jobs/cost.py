"""Computes the hours and the money that one job saves compared with another."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CostSaving:
    """Savings of a change over a whole run. Negative values are extra cost."""

    hours_before: float
    hours_after: float
    hours_saved: float
    money_saved: float | None
    """In the price's currency; None when no price was given."""
    speedup: float | None
    """Time before over time after; None if the time after is 0."""
    saved_pct: float | None

    @property
    def costs_extra(self) -> bool:
        """Whether the change makes it slower."""
        return self.hours_saved < 0


def saving(
    before_h: float, after_h: float, *, epochs: float = 1, price: float | None = None, nodes: float = 1
) -> CostSaving:
    """Compute the savings if an epoch takes `after_h` hours instead of `before_h`.

    Args:
        before_h: Hours an epoch (or a job) took before.
        after_h: Hours it takes now.
        epochs: How many of them a run has.
        price: What one machine costs an hour.
        nodes: How many machines there are.

    Raises:
        ValueError: A value is negative or not finite.
    """
    given = {"before_h": before_h, "after_h": after_h, "epochs": epochs, "price": price, "nodes": nodes}
    for name, value in given.items():
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a finite number and at least 0, not {value!r}")
    before, after = epochs * before_h, epochs * after_h
    saved = before - after
    return CostSaving(
        hours_before=before,
        hours_after=after,
        hours_saved=saved,
        money_saved=None if price is None else saved * price * nodes,
        speedup=before / after if after else None,
        saved_pct=100.0 * saved / before if before else None,
    )
