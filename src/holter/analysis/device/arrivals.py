"""Finds ranks that enter collectives late while the kernels of the other ranks wait.

Communication kernels mostly wait. Ranks leave a collective together, so the ends of its kernels give the
clock skew between ranks. With corrected clocks, the begins give the arrival of each rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.analysis.device.work import COMMUNICATION, COMPUTE, Work
from holter.analysis.intervals import measure, union

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from holter.analysis.device.work import Ints
    from holter.schema.table import Table

COST_PCT = 5.0
"""A late rank costs the others at least this share of their time."""
CHANCE = 0.05
"""How likely it may be, over all ranks, that one is late so often by chance."""
END_SPREAD = 0.25
"""Ends further apart than this share of the begins belong to different collectives."""
END_SPREAD_NS = 100_000
"""Unless they lie no further apart than this."""


class Collectives(NamedTuple):
    """The communication kernels of one rank, in the order of time."""

    key: tuple[str, ...]
    """Key that is equal on all ranks: process group and collective, or the kernel's name."""
    begin: Ints
    end: Ints
    busy_before: Ints
    """For how long the device computed since the collective before, ns."""


def collectives(kernels: Table, work: Work) -> Collectives:
    """Return the collectives of one device.

    Args:
        kernels: Table `kernels`.
        work: What that device ran, with the row of `kernels` in place of the correlation.
    """
    mine = np.flatnonzero(work.kind == COMMUNICATION)
    mine = mine[np.argsort(work.begin[mine], kind="stable")]
    rows, begin, end = work.correlation[mine], work.begin[mine], work.end[mine]
    columns = [kernels[name][rows].tolist() for name in ("process_group", "collective", "name")]
    keys = tuple(f"{g} {c}" if g and c else name for g, c, name in zip(*columns, strict=True))
    computing = work.kind == COMPUTE
    busy = union(work.begin[computing], work.end[computing])
    start = int(work.begin.min()) if len(work.begin) else 0
    since = np.concatenate([[start], np.maximum.accumulate(end)[:-1]]) if len(end) else end
    return Collectives(keys, begin, end, measure(busy, np.minimum(since, begin), begin))


class MatchedCollective(NamedTuple):
    """Collectives that several ranks took part in: one row a rank, one column a collective."""

    key: str
    ranks: Ints
    begin: Ints
    """On the clocks set right, ns."""
    end: Ints
    busy_before: Ints
    clock_ns: Ints
    """By how much each rank's clock was ahead of the middle one's."""

    @property
    def late(self) -> Ints:
        """How much later each rank began than the median of the others, ns; below 0 when earlier."""
        return _beyond_others(self.begin)

    @property
    def skew(self) -> Ints:
        """From the first to the last arrival of each collective, ns."""
        return np.asarray(np.ptp(self.begin, axis=0), dtype=np.int64)


def _beyond_others(values: Ints) -> Ints:
    """Take from each value the median of the others in its column; at least two rows."""
    count = len(values)
    position = np.argsort(np.argsort(values, axis=0, kind="stable"), axis=0, kind="stable")
    ordered = np.sort(values, axis=0)
    columns = np.arange(values.shape[1])

    def nth(n: int) -> Ints:
        # Without itself: what stands behind a value moves up by one.
        return np.asarray(ordered[n + (position <= n), columns], dtype=np.int64)

    return np.asarray(values - (nth((count - 2) // 2) + nth((count - 1) // 2)) // 2, dtype=np.int64)


def arrivals(by_rank: Mapping[int, Collectives]) -> tuple[list[MatchedCollective], list[str]]:
    """Match the collectives of ranks, the k-th of a kind with the k-th.

    Returns:
        What could be matched, and what could not with the reason.
    """
    found, refused = [], []
    at: dict[str, dict[int, list[int]]] = {}
    for rank, own in sorted(by_rank.items()):
        for i, key in enumerate(own.key):
            at.setdefault(key, {}).setdefault(rank, []).append(i)
    for key, rows in at.items():
        if len(rows) < 2:
            continue
        count = min(map(len, rows.values()))
        choices = [{r: i[:count] for r, i in rows.items()}]
        if any(len(i) != count for i in rows.values()):
            # A window opens or closes within a step: the first or the last have a partner on every rank.
            choices.append({r: i[-count:] for r, i in rows.items()})
        matched = [_matched(key, choice, by_rank) for choice in choices]
        best = min(matched, key=_end_spread)
        spread, skew = _end_spread(best), float(np.median(best.skew))
        if spread > max(END_SPREAD * skew, END_SPREAD_NS):
            refused.append(
                f"{key}: its ends lie {spread / 1e6:.3g} ms apart, so they are not of the same collectives"
            )
        else:
            found.append(best)
    return found, refused


def _matched(key: str, rows: dict[int, list[int]], by_rank: Mapping[int, Collectives]) -> MatchedCollective:
    def stacked(column: str) -> Ints:
        return np.stack([getattr(by_rank[rank], column)[i] for rank, i in rows.items()])

    begin, end = stacked("begin"), stacked("end")
    clock = np.median(end - np.median(end, axis=0), axis=1).astype(np.int64)
    return MatchedCollective(
        key, np.array(list(rows)), begin - clock[:, None], end - clock[:, None], stacked("busy_before"), clock
    )


def _end_spread(these: MatchedCollective) -> float:
    return float(np.median(np.ptp(these.end, axis=0)))


@dataclass(frozen=True, kw_only=True)
class LateRank:
    """A rank that the others wait for at their collectives."""

    rank: int
    collectives: int
    """That it took part in with others."""
    later: int
    """At how many it came later than the median of the others."""
    last: int
    """At how many it came last."""
    lateness_ns: int
    """By how much, added up."""
    cost_pct: float
    """That, as a share of the time of the trace."""
    cause: str
    """`device`: its accelerator computed for longer than the others' before. `host`: it did not; the host
    asked for the collective late."""
    extra_busy_ns: int
    """By how much longer than the others' its accelerator computed before those collectives."""


def late_ranks(matched: Sequence[MatchedCollective], span_ns: int) -> list[LateRank]:
    """Find the ranks that are late, the costliest first.

    One is when it comes later than the median of the others so often that chance does not explain it (a
    binomial test at `CHANCE`, shared among the ranks), and when that adds up to `COST_PCT` of the time.

    Args:
        matched: What `arrivals` found.
        span_ns: How long the trace is.
    """
    ranks = np.unique(np.concatenate([a.ranks for a in matched])) if matched else np.empty(0, np.int64)
    by_rank: dict[int, list[tuple[Ints, NDArray[np.bool_], Ints]]] = {}
    for these in matched:
        lasts = these.begin >= these.begin.max(axis=0)
        rows = zip(these.ranks.tolist(), these.late, lasts, _beyond_others(these.busy_before), strict=True)
        for rank, *row in rows:
            by_rank.setdefault(rank, []).append(tuple(row))
    found = []
    for rank in ranks.tolist():
        late, last, extra = map(np.concatenate, zip(*by_rank[rank], strict=True))
        count, later = len(late), int((late > 0).sum())
        cost = int(late[late > 0].sum())
        share = 100.0 * cost / span_ns if span_ns > 0 else 0.0
        if share < COST_PCT or _by_chance(later, count) >= CHANCE / len(ranks):
            continue
        busy = int(extra[late > 0].sum())
        found.append(
            LateRank(
                rank=int(rank),
                collectives=count,
                later=later,
                last=int(last.sum()),
                lateness_ns=cost,
                cost_pct=min(share, 100.0),
                cause="device" if busy >= cost / 2 else "host",
                extra_busy_ns=busy,
            )
        )
    return sorted(found, key=lambda x: -x.lateness_ns)


def late_together(late: Sequence[LateRank]) -> list[LateRank]:
    """Return the ranks that are late for at least half as long as the first one: a node, a stage, or one."""
    return [one for one in late if 2 * one.lateness_ns >= late[0].lateness_ns]


def _by_chance(hits: int, tries: int) -> float:
    """Return how likely at least so many heads are, of so many throws of a coin."""
    if tries > 1000:  # far enough in the tail for the bound of Hoeffding
        return float(np.exp(-2 * max(hits / tries - 0.5, 0.0) ** 2 * tries))
    return sum(comb(tries, k) for k in range(hits, tries + 1)) / (1 << tries)
