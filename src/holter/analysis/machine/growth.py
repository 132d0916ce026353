"""Finds steady growth of a reading that lasts until its end, and when it began."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_BINS = 24
"""The most pieces of time; their medians are judged, so that the length of the job does not matter."""
_MIN_BINS = 12
_SHORTEST = 3
"""Growth that lasts for a smaller part of the time than one of so many may be a buffer that fills."""
_EVEN = 0.4
"""Each third of the growing part grows by at least this share of its mean growth."""
_RISING = 0.7
"""Share of neighboring medians that rise."""
_CLEAR = 8.0
"""It grows by at least so many times the deviation of the medians from the line."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A reading that grows steadily until its end."""

    since: int
    """When it began, ns."""
    before: float
    """The level at that time."""
    after: float
    per_s: float


def growth(time: NDArray[np.int64], values: NDArray[np.float64]) -> Growth | None:
    """Return the growth that lasts until the end of a series, or None.

    The begin is the knee of the line, level at first and rising afterwards, that fits the medians of equal
    pieces of time best.

    Args:
        time: When each value was read, ns, ascending, shape (n,).
        values: Readings, finite, shape (n,).
    """
    count = min(len(time) * 9 // 10, _BINS)
    if count < _MIN_BINS:
        return None
    edges = np.linspace(time[0], time[-1] + 1, count + 1)
    bins = np.searchsorted(time, edges)
    # On a busy machine some pieces have no reading.
    places = np.flatnonzero(np.diff(bins))
    if len(places) < _MIN_BINS:
        return None
    levels = np.array([np.median(values[bins[place] : bins[place + 1]]) for place in places])
    best, knee, slope = np.inf, 0, 0.0
    for at in range(count - count // _SHORTEST + 1):
        bent = np.column_stack([np.ones(len(places)), np.maximum(places - at, 0)])
        fit = np.linalg.lstsq(bent, levels, rcond=None)[0]
        error = float(((levels - bent @ fit) ** 2).sum())
        if error < best:
            best, knee, slope = error, at, float(fit[1])
    grows = places >= knee
    part, at_places = levels[grows], places[grows]
    if len(part) < _MIN_BINS // _SHORTEST:
        return None
    thirds = [
        (part[high] - part[low]) / (at_places[high] - at_places[low]) for low, high in _thirds(len(part))
    ]
    rising = float((np.diff(part) > 0).mean())
    noise = float(np.sqrt(best / len(places)))
    if slope <= 0 or min(thirds) < _EVEN * slope or rising < _RISING or part[-1] - part[0] < _CLEAR * noise:
        return None
    width_s = float(edges[1] - edges[0]) / 1e9
    return Growth(int(edges[knee]), float(part[0]), float(part[-1]), slope / width_s)


def _thirds(count: int) -> Iterator[tuple[int, int]]:
    """Return the first and the last index of three parts of equal length; neighbors share a value."""
    return itertools.pairwise(np.linspace(0, count - 1, 4).round().astype(int).tolist())
