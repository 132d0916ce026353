"""The summary of a tensor, and the join of the summaries of its parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(slots=True)
class Summary:
    """Counts as in `tensor_spool.COUNTS`, and statistics of the finite elements as in `STATISTICS`."""

    counts: tuple[int, ...]
    statistics: tuple[float, ...]


EMPTY = (math.nan,) * 8


def joined(one: Summary, other: Summary) -> Summary:
    """Join the statistics of two parts of a tensor exactly, without quantiles."""
    counts = tuple(a + b for a, b in zip(one.counts, other.counts, strict=True))
    first, second = (each.counts[0] - sum(each.counts[1:4]) for each in (one, other))
    if not (first and second):
        kept = one if first else other
        return Summary(counts, (*kept.statistics[:5], *EMPTY[5:]))
    (low, high, mean, std, absolute), (low2, high2, mean2, std2, absolute2) = (
        one.statistics[:5],
        other.statistics[:5],
    )
    share = second / (first + second)
    apart = mean2 - mean
    variance = (1 - share) * std * std + share * std2 * std2 + share * (1 - share) * apart * apart
    numbers = (min(low, low2), max(high, high2), mean + share * apart, math.sqrt(variance))
    return Summary(counts, (*numbers, absolute + share * (absolute2 - absolute), *EMPTY[5:]))


def with_zeros(found: Summary, zeros: int) -> Summary:
    """Add zeros that a sparse tensor does not store; quantiles are then unknown."""
    if not zeros:
        return found
    count, nan, positive, negative, zero, tiny = found.counts
    counts = (count + zeros, nan, positive, negative, zero + zeros, tiny)
    low, high, mean, std, absolute = (0.0 if math.isnan(one) else one for one in found.statistics[:5])
    share = (count - nan - positive - negative) / (count - nan - positive - negative + zeros)
    square = (std * std + mean * mean) * share
    mean *= share
    std = math.sqrt(max(square - mean * mean, 0.0))
    numbers = (min(low, 0.0), max(high, 0.0), mean, std, absolute * share, *EMPTY[5:])
    return replace(found, counts=counts, statistics=numbers)
