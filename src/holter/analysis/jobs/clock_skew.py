"""Estimates the clock skew between the nodes of a job from the ends of collectives."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table

FEWEST = 8
"""Collectives that two nodes must share before their clocks are compared."""


@dataclass(frozen=True, slots=True)
class Skew:
    """One node's clock against that of the node with the lowest rank."""

    node: str
    against: str
    skew_ns: int | None
    """How far its clock is ahead; None if it is unknown."""
    spread_ns: int | None
    """Interquartile range of the estimates of single collectives."""
    collectives: int
    why: str | None
    """Why the skew is unknown."""

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return {key: value for key, value in asdict(self).items() if key != "node"}


def clock_skew(collectives: Table, nodes: list[str], *, on_host: bool) -> dict[str, Skew]:
    """Estimate the skew of each node against the first.

    A collective ends on no rank before all have taken part, and then on all within the time of one transfer.
    So the difference between the moments at which two nodes saw it end is the skew of their clocks plus noise
    without a bias: the median over the steps is the estimate.

    Args:
        collectives: Spans of phase `communication`: node, step, time, duration in ns.
        nodes: Names of the nodes, the one with the lowest rank first.
        on_host: Whether these spans end with the collective; on an accelerator they end when it is queued.

    Returns:
        The skew of each node except the first, or the reason why it is unknown.
    """
    first = nodes[0]
    ends = {node: _ends(collectives.where(collectives["node"] == node)) for node in nodes}
    found = {}
    for node in nodes[1:]:
        (mine, my_ends), (theirs, their_ends) = ends[node], ends[first]
        shared, i, j = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
        if not on_host:
            why = "collectives end on the accelerator, where no clock was read"
        elif len(shared) < FEWEST:
            why = f"the nodes share {len(shared)} collectives, and {FEWEST} are needed"
        else:
            apart = my_ends[i] - their_ends[j]
            low, middle, high = np.percentile(apart, [25, 50, 75])
            found[node] = Skew(node, first, int(middle), int(high - low), len(shared), None)
            continue
        found[node] = Skew(node, first, None, None, len(shared), why)
    return found


def _ends(spans: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the steps with collectives, and when the last collective of each ended."""
    steps, group = np.unique(spans["step"], return_inverse=True)
    ends = np.full(len(steps), np.iinfo(np.int64).min)
    np.maximum.at(ends, group, spans["time"] + spans["duration"])
    known = steps >= 0
    return steps[known], ends[known]
