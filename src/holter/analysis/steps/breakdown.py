"""Computes the exclusive breakdown: percent of the training loop's wall time in each part of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.steps.warmup import by_rank, steady
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

PASSES = ("forward", "loss", "backward", "optimizer")
"""Parts of every training step."""


def breakdown(steps: Table, mask: NDArray[Any] | None = None) -> dict[str, float]:
    """Compute the share of each part of `BREAKDOWN` in percent; the shares add up to 100.

    The time between one step's end and the next one's begin is the loop's too and counts as `other`, unless a
    step is missing there or a new attempt begins.

    Args:
        steps: Table `steps`, of any number of ranks.
        mask: Rows to use; steady state when absent.

    Returns:
        Part → percent; empty when there are no steps.
    """
    mask = steady(steps) if mask is None else mask
    if not mask.any():
        return {}
    # A long job has millions of steps: no more of them is copied at once than one column.
    spent = {part: int(steps[part][mask].sum()) for part in BREAKDOWN}
    used = Table({name: steps[name][mask] for name in ("time", "duration", "rank", "step")})
    gap = sum(_gaps(used, rows) for rows in by_rank(used))
    total = int(used["duration"].sum()) + gap
    spent["other"] += gap
    return {part: 100.0 * ns / total for part, ns in spent.items()}


def not_seen(steps: Table, observed: Collection[str] = ()) -> list[str]:
    """Return the parts that these steps have but that no hook observed; their time counts as `other`.

    An update of parameters follows a backward pass, and that a forward pass. What a compiler made one piece
    of shows as none of them.

    Args:
        steps: Table `steps`.
        observed: The parts that the adapter observes; empty if it observes all. Each step loads data, and
            its passes are seen as such or as `compute`.
    """
    if observed:
        needed = ("data_loading", *(() if "compute" in observed else PASSES))
        return [part for part in needed if part not in observed]
    training = steps["mode"] == "train"
    seen = [part for part in PASSES if steps[part][training].any()]
    if "backward" in seen or "optimizer" in seen:
        # A model that returns its loss leaves nothing between forward and backward.
        expected = ("backward",) if "forward" in seen else ("forward", "loss", "backward")
        return [part for part in expected if part not in seen]
    return [] if seen or not steps["compile"][training].any() else list(PASSES)


def only_seen(split: Mapping[str, float], unseen: Collection[str]) -> dict[str, float]:
    """Return a breakdown in which the time of parts that are not seen is `other`.

    A hook may see a little of such a part, as the making of an iterator whose batches nothing tells of.
    """
    found = dict(split)
    for part in unseen:
        found["other"] += found[part]
        found[part] = 0.0
    return found


def _gaps(steps: Table, rows: NDArray[np.int64]) -> int:
    begin = steps["time"][rows]
    between = begin[1:] - (begin + steps["duration"][rows])[:-1]
    return int(between[(np.diff(steps["step"][rows]) == 1) & (between > 0)].sum())
