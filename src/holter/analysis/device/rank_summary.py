"""Compares the ranks of a trace: time breakdown of each, outliers among ranks, and late ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.arrivals import (
    Collectives,
    LateRank,
    MatchedCollective,
    arrivals,
    collectives,
    late_ranks,
)
from holter.analysis.device.time_breakdown import TimeBreakdown, broken_down, split
from holter.analysis.device.work import device_work
from holter.analysis.steps.spread import spread
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MIN_RANKS = 4
"""With fewer there is no usual one to differ from."""
DEVIATIONS = 5.0
"""An odd rank lies so many median absolute deviations from the middle one,"""
DIFFERENCE_PCT = 10.0
"""and by so many percent of its time."""
_COMPARED = ("compute_ns", "communication_ns", "memory_ns", "idle_ns")


@dataclass(frozen=True, kw_only=True)
class RankPart:
    """Summary of one rank's device: a few hundred bytes and its collectives."""

    breakdown: TimeBreakdown
    collectives: Collectives


@dataclass(frozen=True, kw_only=True)
class OddRank:
    """A rank that differs from the others in what its device does."""

    rank: int
    part: str
    """compute, communication, memory or idle."""
    own_ns: int
    usual_ns: int
    """Median of all ranks."""


@dataclass(frozen=True, kw_only=True)
class RankSummary:
    """Several ranks compared."""

    ranks: list[RankPart]
    odd: list[OddRank]
    """The largest difference first."""
    late: list[LateRank]
    """The costliest first."""
    arrivals: list[MatchedCollective]
    refused: list[str]
    """Collectives that could not be matched between ranks, and why."""


def rank_parts(tables: Mapping[str, Table]) -> list[RankPart]:
    """Reduce the tables of one or several ranks to the data of a comparison.

    Args:
        tables: `kernels` and `memory_operations`. A thousand ranks are read one by one and only this kept.
    """
    kernels = tables.get("kernels") or Table.empty("kernels")
    work = device_work(tables)
    work = work._replace(correlation=np.arange(len(work.begin)))  # the row: kernels come first
    return [
        RankPart(breakdown=broken_down(mine, key), collectives=collectives(kernels, mine))
        for key, mine in split(work)
    ]


def rank_summary(parts: Iterable[RankPart]) -> RankSummary:
    """Compare ranks. Of a rank with several devices the busiest counts."""
    best: dict[int, RankPart] = {}
    for part in parts:
        known = best.get(part.breakdown.rank)
        if known is None or part.breakdown.busy_ns > known.breakdown.busy_ns:
            best[part.breakdown.rank] = part
    ranks = [best[rank] for rank in sorted(best)]
    matched, refused = arrivals({part.breakdown.rank: part.collectives for part in ranks})
    span = int(np.median([part.breakdown.span_ns for part in ranks])) if ranks else 0
    return RankSummary(
        ranks=ranks,
        odd=odd_ranks([part.breakdown for part in ranks]),
        late=late_ranks(matched, span),
        arrivals=matched,
        refused=refused,
    )


def odd_ranks(ranks: Sequence[TimeBreakdown]) -> list[OddRank]:
    """Find the ranks that spend their time unlike the others, by share: longer traces do not stand out.

    One is odd in a part when it lies `DEVIATIONS` median absolute deviations and `DIFFERENCE_PCT` percent of
    its time from the median rank.
    """
    if len(ranks) < MIN_RANKS:
        return []
    found: list[tuple[float, OddRank]] = []
    span = np.array([max(rank.span_ns, 1) for rank in ranks])
    for part in _COMPARED:
        own = np.array([getattr(rank, part) for rank in ranks])
        share = 100.0 * own / span
        middle = float(np.median(share))
        deviation = spread(share, middle)
        off = np.abs(share - middle)
        for i in np.flatnonzero((off > DEVIATIONS * deviation) & (off >= DIFFERENCE_PCT)).tolist():
            odd = OddRank(
                rank=ranks[i].rank,
                part=part.removesuffix("_ns"),
                own_ns=int(own[i]),
                usual_ns=int(np.median(own)),
            )
            found.append((float(off[i]), odd))
    return [odd for _, odd in sorted(found, key=lambda pair: -pair[0])]
