"""Finds slow threads among threads with the same calls, in traces of workers without devices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.analysis.device.work import matching
from holter.analysis.slow_group import slow_group

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.analysis.host.operator_tree import Host
    from holter.schema.table import Table

MIN_THREADS = 4
MIN_CALLS = 4
EXCESS = 0.15
"""A slow thread takes at least this share longer than the others for the same calls,"""
SHARE = 0.2
"""and those calls fill at least this share of its time."""

_WAITING = re.compile(
    r"send|recv|receive|reduce|gather|scatter|broadcast|barrier|all.?to.?all|wait|lock|acquire|sleep|select|poll"
    r"|join|accept|queue|read|write|idle",
    re.IGNORECASE,
)
"""Calls that wait for others."""


class SlowThread(NamedTuple):
    """A thread that takes longer than others for the same calls."""

    rank: int
    thread: int
    label: str
    """Names of its process and of the thread in the trace."""
    ratio: float
    """Its time for those calls over the median of the threads that are not slow."""
    name: str
    """Of the calls, those that most of the difference is in."""
    alike: int
    """Threads that do the same, this one among them."""
    others: int
    """Of these, the threads that are not slow: the ratio is to their median."""
    shared: str
    """What the labels of all slow ones share and those of the others lack, as `PP rank 3`; may be empty."""
    share_pct: float
    """Those calls as a share of its own span."""


def slow_threads(tree: Host, tracks: Table | None = None) -> list[SlowThread]:
    """Find the threads that are slow at what at least `MIN_THREADS` threads do alike, the slowest first.

    Threads do alike when they make the same calls equally often, give or take a tenth; calls that wait for
    others by their name are left out. Up to half of the threads, as a stage of a pipeline, may be slow.

    Args:
        tree: What `host` returns.
        tracks: Table `tracks`, for the names of threads.
    """
    if not len(tree.begin):
        return []
    rows = np.flatnonzero(~matching(np.array(tree.names, object)[tree.name], _WAITING.search))
    threads, at = np.unique(np.stack([tree.rank[rows], tree.thread[rows]]), axis=1, return_inverse=True)
    count = threads.shape[1]
    if count < MIN_THREADS:
        return []
    names, code = np.unique(tree.name[rows], return_inverse=True)
    cell = at.ravel() * len(names) + code
    size = count * len(names)
    calls = np.bincount(cell, minlength=size).reshape(count, -1)
    spent = np.bincount(cell, weights=tree.own_ns[rows], minlength=size).reshape(count, -1)
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.zeros(count, dtype=np.int64)
    np.minimum.at(first, at.ravel(), tree.begin[rows])
    np.maximum.at(last, at.ravel(), tree.end[rows])
    found = []
    kinds, kind = np.unique(calls >= MIN_CALLS, axis=0, return_inverse=True)
    for number, common in enumerate(kinds):
        members = np.flatnonzero(kind.ravel() == number)
        if not common.any() or len(members) < MIN_THREADS:
            continue
        usual = np.median(calls[members][:, common], axis=0)
        near = (np.abs(calls[members][:, common] - usual) <= 0.1 * usual).all(axis=1)
        members = members[near]
        if len(members) < MIN_THREADS:
            continue
        own = spent[members][:, common]
        total, span = own.sum(axis=1), np.maximum(last - first, 1)[members]
        group = slow_group(total, EXCESS)
        slow = group.members if group else total > (1 + EXCESS) * np.median(total)
        middle, typical = np.median(own[~slow], axis=0), float(np.median(total[~slow]))
        named = [_label(tracks, *pair) for pair in threads[:, members].T.tolist()]
        shared = _shared(named, slow)
        for i in np.flatnonzero(slow & (total >= SHARE * span)).tolist():
            worst = int(np.argmax(own[i] - middle))
            found.append(
                SlowThread(
                    rank=int(threads[0, members[i]]),
                    thread=int(threads[1, members[i]]),
                    label=named[i],
                    ratio=float(total[i] / typical),
                    name=tree.names[int(names[common][worst])],
                    alike=len(members),
                    others=int((~slow).sum()),
                    shared=shared,
                    share_pct=100.0 * float(total[i] / span[i]),
                )
            )
    return sorted(found, key=lambda thread: -thread.ratio)


def _shared(labels: list[str], slow: NDArray[np.bool_]) -> str:
    """Return the part of their labels that all slow threads share and the others lack."""
    parts = [label.split(", ") for label in labels]
    theirs = {part for own, is_slow in zip(parts, slow.tolist(), strict=True) if not is_slow for part in own}
    mine = [own for own, is_slow in zip(parts, slow.tolist(), strict=True) if is_slow]
    if len(mine) < 2:
        return ""
    return ", ".join(part for part in mine[0] if part not in theirs and all(part in own for own in mine))


def _label(tracks: Table | None, rank: int, thread: int) -> str:
    """Return the names of a thread's process and of itself; its number where the trace has none."""
    if tracks is None:
        return f"thread {thread}"
    mine = tracks.where((tracks["rank"] == rank) & (tracks["name"] != ""))
    own = mine.where((mine["kind"] == "thread") & (mine["thread"] == thread))
    if not own.rows:
        return f"thread {thread}"
    around = mine.where((mine["kind"] == "process") & (mine["process"] == own["process"][0]))
    return ", ".join([*around["name"].tolist()[:1], str(own["name"][0])])
