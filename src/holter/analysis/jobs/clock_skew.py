"""Estimates offset and drift between the clocks of a job's nodes from what they end together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table

FEWEST = 8
"""Ends that two nodes must share before their clocks are compared."""
_FEWEST_FOR_DRIFT = 30
_PAIRS_OF = 240
"""Number of points whose pairs give the first slope."""
_ROUNDS = 12
_TUKEY = 4.685
"""Residuals above so many standard deviations have no weight: 95 % efficiency for normal noise."""
_DEVIATIONS = 4.0
"""The error bound in standard errors. Noise of neighbouring steps is alike, so it is more than 3."""
_MOST_DRIFT = 1e-3
"""A clock that gains more is no clock: the ends are not of the same steps."""


@dataclass(frozen=True, slots=True)
class Skew:
    """One node's clock against that of the node with the lowest rank."""

    node: str
    against: str
    skew_ns: int | None
    """How far its clock is ahead at `at_ns`; None if it is unknown."""
    drift_ppm: float | None
    """Microseconds that it gains per second; None if unknown."""
    error_ns: int | None
    """The corrected times are wrong by this much at most, over the time that the ends cover."""
    at_ns: int | None
    """A time of this node's clock, ns since the epoch."""
    spread_ns: int | None
    """Interquartile range of what single ends say."""
    source: str
    """What ended together: `collectives`, or `steps`."""
    collectives: int
    """How many of them."""
    why: str | None
    """Why the skew is unknown."""

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return {key: value for key, value in asdict(self).items() if key != "node"}


def clock_skew(
    ends: Table, nodes: list[str], *, source: str = "collectives", late_ns: int = 0
) -> dict[str, Skew]:
    """Estimate the skew of each node against the first.

    A collective ends on no rank before all have taken part, and then on all within the time of one transfer.
    So the difference between the moments at which two nodes saw it end is the skew of their clocks plus noise
    without a bias. A line through these differences, robust against outliers, is the estimate.

    Args:
        ends: What ended on each node: node, step, ended (ns), one row for each node and step.
        nodes: Names of the nodes, the one with the lowest rank first.
        source: What ended: `collectives` or `steps`.
        late_ns: How much later than another a node can see one end, without being late itself. It is added
            to the error.

    Returns:
        The skew of each node except the first, or the reason why it is unknown.
    """
    first = nodes[0]
    by_node = {node: _of(ends.where(ends["node"] == node)) for node in nodes}
    found = {}
    for node in nodes[1:]:
        (mine, my_ends), (theirs, their_ends) = by_node[node], by_node[first]
        shared, i, j = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
        if len(shared) < FEWEST:
            why = f"the nodes share {len(shared)} {source}, and {FEWEST} are needed"
            found[node] = Skew(node, first, None, None, None, None, None, source, len(shared), why)
            continue
        at = int(np.median(my_ends[i]))
        seconds = (my_ends[i] - at) / 1e9
        apart = my_ends[i] - their_ends[j]
        zero = int(np.median(apart))
        ahead, gain, error = line(seconds, (apart - zero).astype(np.float64))
        if abs(gain) > _MOST_DRIFT * 1e9:
            why = f"the ends of {source} move apart by {gain / 1e6:.3g} ms per second, so they are not common"
            found[node] = Skew(node, first, None, None, None, None, None, source, len(shared), why)
            continue
        low, high = np.percentile(apart - zero - gain * seconds, [25, 75])
        found[node] = Skew(
            node=node,
            against=first,
            skew_ns=zero + round(ahead),
            drift_ppm=gain / 1e3,
            error_ns=round(error) + late_ns,
            at_ns=at,
            spread_ns=int(high - low),
            source=source,
            collectives=len(shared),
            why=None,
        )
    return found


def line(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float, float]:
    """Fit a line through noisy points of which many may be wrong.

    The median of the slopes between pairs of points (Theil and Sen) starts it; weights of Tukey's biweight
    refine it, so that it is as exact as least squares where the noise is normal.

    Returns:
        Value at x = 0, slope, and a bound of the error of the line from the first to the last x.
    """
    slope = _median_slope(x, y) if len(x) >= _FEWEST_FOR_DRIFT else 0.0
    level = float(np.median(y - slope * x))
    weight = np.ones(len(x))
    center, width = 0.0, 0.0
    for _ in range(_ROUNDS):
        rest = y - level - slope * x
        scale = max(1.4826 * float(np.median(np.abs(rest - np.median(rest)))), 1.0)
        weight = np.square(np.maximum(1 - np.square(rest / (_TUKEY * scale)), 0))
        total = float(weight.sum())
        center = float((weight * x).sum()) / total
        width = float((weight * np.square(x - center)).sum())
        middle = float((weight * y).sum()) / total
        if len(x) >= _FEWEST_FOR_DRIFT and width > 0:
            slope = float((weight * (x - center) * (y - middle)).sum()) / width
        level = middle - slope * center
    rest = y - level - slope * x
    scale = max(1.4826 * float(np.median(np.abs(rest - np.median(rest)))), 1.0)
    edge = max(abs(float(x.max()) - center), abs(float(x.min()) - center))
    leverage = edge**2 / width if len(x) >= _FEWEST_FOR_DRIFT and width > 0 else 0.0
    return level, slope, _DEVIATIONS * scale * float(np.sqrt(1 / weight.sum() + leverage))


def _median_slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return the median slope of the pairs of some points: of medians of groups, when there are many."""
    order = np.argsort(x, kind="stable")
    count = min(len(x), _PAIRS_OF)
    size, more = divmod(len(x), count)
    cut = more * (size + 1)  # groups of `size + 1`, then groups of `size`
    groups = [one for one in (order[:cut].reshape(-1, size + 1), order[cut:].reshape(-1, size)) if one.size]
    some_x = np.concatenate([np.median(x[group], axis=1) for group in groups])
    some_y = np.concatenate([np.median(y[group], axis=1) for group in groups])
    i, j = np.triu_indices(count, 1)
    run = some_x[j] - some_x[i]
    far = run > 0
    return float(np.median((some_y[j] - some_y[i])[far] / run[far])) if far.any() else 0.0


def _of(ends: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the steps and when each ended, the last end of each."""
    known = ends.where(ends["step"] >= 0)
    steps, group = np.unique(known["step"], return_inverse=True)
    last = np.full(len(steps), np.iinfo(np.int64).min)
    np.maximum.at(last, group, known["ended"])
    return steps, last
