"""Separates the slow ones of several alike, one or up to half of them, from the others."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

APART = 0.5
"""The gap between slow and usual ones is at least this share of the difference of their medians."""


class SlowGroup(NamedTuple):
    """The slow ones of several values. A median of all would be a mixture of both groups."""

    members: NDArray[np.bool_]
    usual: float
    """Median of the others."""


def slow_group(values: NDArray[np.floating | np.integer], excess: float) -> SlowGroup | None:
    """Return the group of large values, at most half of all; None if no gap separates them from the others.

    Args:
        values: One number of each, such as the time of a rank.
        excess: Each member lies above the median of the others by at least this share of it.
    """
    count = len(values)
    if count < 2:
        return None
    order = np.argsort(values, kind="stable")
    ordered = np.asarray(values, np.float64)[order]
    first = (count + 1) // 2
    gaps = np.diff(ordered)[first - 1 :]
    at = first + int(np.argmax(gaps))
    usual, slow = float(np.median(ordered[:at])), float(np.median(ordered[at:]))
    if ordered[at] <= (1 + excess) * usual or gaps.max() < APART * (slow - usual):
        return None
    members = np.zeros(count, bool)
    members[order[at:]] = True
    return SlowGroup(members, usual)


def ranks_text(ranks: Sequence[int]) -> str:
    """Name ranks for people: `rank 3`, `ranks 4 to 7`, `ranks 1, 3, 5 and 7`, `ranks 0, 2, 4 and 61 more`."""
    ordered = sorted(ranks)
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    if len(ordered) > 2 and all(b - a == 1 for a, b in pairwise(ordered)):
        return f"ranks {ordered[0]} to {ordered[-1]}"
    last = str(ordered[-1]) if len(ordered) <= 4 else f"{len(ordered) - 3} more"
    return f"ranks {', '.join(map(str, ordered[: min(len(ordered) - 1, 3)]))} and {last}"
