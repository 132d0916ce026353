"""Counts events that run at given moments or during given intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray


def times_at(begin: NDArray[Any], end: NDArray[Any], moments: ArrayLike) -> NDArray[np.int64]:
    """Return for each event how many of the moments lie in [begin, end]."""
    ordered = np.sort(np.asarray(moments, dtype=np.int64))
    found = np.searchsorted(ordered, end, side="right") - np.searchsorted(ordered, begin, side="left")
    return np.asarray(found, dtype=np.int64)


def times_during(
    begin: NDArray[Any], end: NDArray[Any], starts: ArrayLike, ends: ArrayLike
) -> NDArray[np.int64]:
    """Return for each event how many of the stretches [start, end] it overlaps.

    Raises:
        ValueError: There are not as many ends as starts.
    """
    first, last = (np.sort(np.asarray(given, dtype=np.int64)) for given in (starts, ends))
    if len(first) != len(last):
        raise ValueError(f"{len(first)} begins and {len(last)} ends; a stretch has one of each")
    begun = np.searchsorted(first, end, side="right")
    return np.asarray(begun - np.searchsorted(last, begin, side="left"), dtype=np.int64)


def sums(names: Iterable[str], amounts: Iterable[int]) -> dict[str, int]:
    """Add amounts up by name, the largest first; what is 0 is left out."""
    found: dict[str, int] = {}
    for name, amount in zip(names, amounts, strict=True):
        if amount:
            found[name] = found.get(name, 0) + int(amount)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def of_largest(totals: dict[str, int]) -> dict[str, float]:
    """Return each as a share of the largest, which is 1."""
    most = max(totals.values(), default=0)
    return {name: total / most for name, total in totals.items()} if most else {}


def percent(totals: dict[str, int], most: int) -> dict[str, float]:
    """Return the first so many in percent of all."""
    every = sum(totals.values())
    return {name: 100.0 * total / every for name, total in list(totals.items())[:most]} if every else {}
