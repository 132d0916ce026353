"""Finds nodes whose metrics differ from those of the other nodes: in one training all nodes do the same."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

FEWEST = 4
"""Nodes from which a majority tells what is usual."""
_BINS = 6
_MOST_BINS_LIKE = 1
"""Bins in which an outlier may be like the others."""
_RELATIVE_FLOOR = 0.02
"""Nodes that differ by less than this share of the median are alike, however alike the others are."""


class OutlyingMetric(NamedTuple):
    """One metric of a node that differs from that of the other nodes all the time."""

    node: str
    metric: str
    value: float
    """The median of its readings."""
    usual: float
    """The median of the other nodes' medians."""
    score: float
    """Least distance in any bin that counts, in standard deviations of the nodes; below 0 if it is lower."""


def outlier_nodes(
    readings: Mapping[str, Mapping[str, Sequence[tuple[NDArray[np.int64], NDArray[np.float64]]]]],
    start: int,
    end: int,
    *,
    score: float = 6.0,
    relative: float = 0.2,
) -> list[OutlyingMetric]:
    """Return the outliers, the most distant first.

    Each metric is judged by itself. A node is an outlier if it differs from the median of the nodes in the
    same direction in nearly all bins of time.

    Args:
        readings: Metric → node → time (ns) and value of each of its devices.
        start: Begin of the judged time, ns.
        end: End of the judged time, ns.
        score: Least distance in robust standard deviations of the nodes.
        relative: Least difference, as a share of the median of the nodes.
    """
    edges = np.linspace(start, end, _BINS + 1)
    found = []
    for metric, by_node in sorted(readings.items()):
        nodes = sorted(by_node)
        if len(nodes) < FEWEST:
            continue
        binned = np.array([_binned(by_node[node], edges) for node in nodes])
        usable = (~np.isnan(binned)).sum(axis=0) >= FEWEST
        if usable.sum() <= _MOST_BINS_LIKE:
            continue
        binned = binned[:, usable]
        middle = np.nanmedian(binned, axis=0)
        spread = 1.4826 * np.nanmedian(np.abs(binned - middle), axis=0)
        width = np.maximum(np.maximum(spread, _RELATIVE_FLOOR * np.abs(middle)), 1e-12)
        distance = (binned - middle) / width
        large = np.abs(binned - middle) >= relative * np.abs(middle)
        for at, node in enumerate(nodes):
            for sign in (1.0, -1.0):
                far = (sign * distance[at] >= score) & large[at]
                if far.sum() < len(middle) - _MOST_BINS_LIKE or not far.any():
                    continue
                least = float(np.min(np.abs(distance[at][far])))
                value, usual = float(np.nanmedian(binned[at])), float(np.median(middle))
                found.append(OutlyingMetric(node, metric, value, usual, sign * least))
    return sorted(found, key=lambda one: -abs(one.score))


def _binned(
    devices: Sequence[tuple[NDArray[np.int64], NDArray[np.float64]]], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the median reading of each bin: of the device that differs most from the node's others.

    One bad GPU of eight is not hidden by the mean of the node.
    """
    table = np.full((len(devices), len(edges) - 1), np.nan)
    at = 0
    while at < len(devices):
        # Devices of one node are read together, so they have the same times: one median serves them all.
        time = devices[at][0]
        alike = at + 1
        while alike < len(devices) and np.array_equal(devices[alike][0], time):
            alike += 1
        values = np.stack([value for _, value in devices[at:alike]])
        for column, (low, high) in enumerate(pairwise(np.searchsorted(time, edges).tolist())):
            if high > low:
                table[at:alike, column] = np.median(values[:, low:high], axis=1)
        at = alike
    if len(table) == 1:
        only: NDArray[np.float64] = table[0]
        return only
    seen = ~np.isnan(table).all(axis=0)
    found = np.full(table.shape[1], np.nan)
    part = table[:, seen]
    apart = np.abs(part - np.nanmedian(part, axis=0))
    farthest = np.nanargmax(apart, axis=0)
    found[seen] = part[farthest, np.arange(part.shape[1])]
    return found
