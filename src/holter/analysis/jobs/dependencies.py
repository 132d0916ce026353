"""Plays a timeline of several workers again: operations start when those that they depend on have ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.analysis.jobs.worker_timeline import (
    COLLECTIVE,
    COMPUTE,
    RECEIVE,
    SEND,
    WorkerTimeline,
    codes,
    kind_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_SENDS, _RECEIVES = re.compile("send", re.IGNORECASE), re.compile("recv|receive", re.IGNORECASE)
_DIRECTION = re.compile(r"forward|backward", re.IGNORECASE)
ROUNDING_NS = 10_000
"""An operation may wait for another one that ends this little after its own begin: times are rounded."""
END_SPREAD = 0.25
"""Members of a collective end together: this share of their duration apart at most, on median."""
_AT_ONCE = 16
"""Number of variants that are played at once: more take more memory, and no less time."""


class Dependencies(NamedTuple):
    """The graph of a timeline. After the operations come nodes for moments when a group is complete."""

    duration: Floats
    """Of each operation from when its group is complete, ns."""
    levels: list[tuple[Ints, Ints, Ints]]
    """Nodes that depend on earlier levels only: nodes, predecessors, and each node's first of those."""
    nodes: int

    def play(self, durations: Floats, step: Ints) -> Floats:
        """Return the duration of each step for each column of `durations`, which are those of operations."""
        parts = [durations[:, i : i + _AT_ONCE] for i in range(0, durations.shape[1], _AT_ONCE)]
        return np.concatenate([self._play(part, step) for part in parts], axis=1)

    def _play(self, durations: Floats, step: Ints) -> Floats:
        count, variants = durations.shape
        end = np.zeros((self.nodes, variants))
        end[:count] = durations
        for nodes, before, first in self.levels:
            end[nodes] += np.maximum.reduceat(end[before], first, axis=0)
        order = np.argsort(step, kind="stable")
        first = np.searchsorted(step[order], np.arange(int(step.max()) + 1))
        return np.asarray(np.maximum.reduceat(end[order], first, axis=0))


def dependencies(timeline: WorkerTimeline) -> Dependencies | None:
    """Find what each operation of a timeline waits for; None if the result has a cycle.

    * Operations of one thread run in their order. Transfers between stages form one queue per name.
    * The nth receive of a direction feeds its nth computation, which feeds the nth send.
    * The nth send of a stage and the nth receive of the next one start together, and so do the members of
      a collective. What they take from then on is the transfer.
    * An operation waits for the operation of another thread that ended last while its own thread idled.
    """
    count, kind = len(timeline.begin), timeline.kind
    transfers = (kind == SEND) | (kind == RECEIVE)
    queue = codes(timeline.worker, timeline.thread, np.where(transfers, timeline.name + 1, 0))
    links = [_in_order(timeline, queue)]
    fed, matched = _fed(timeline, kind)
    links += [fed, _idle_until(timeline, queue, ~(transfers & matched))]
    group = _groups(timeline, kind)
    member = np.flatnonzero(group >= 0)
    before, after = np.concatenate(links, axis=1)
    # Members start when all of them could: what precedes one of them precedes the moment of the group.
    after = np.where(group[after] >= 0, count + group[after], after)
    before = np.concatenate([before, count + group[member]])
    after = np.concatenate([after, member])
    nodes = count + int(group.max(initial=-1)) + 1
    complete = np.zeros(nodes - count, dtype=np.int64)
    np.maximum.at(complete, group[member], timeline.begin[member])
    start = timeline.begin.copy()
    start[member] = complete[group[member]]
    levels = _levels(before, after, nodes)
    if levels is None:
        return None
    return Dependencies(np.maximum(timeline.end - start, 0).astype(np.float64), levels, nodes)


def _numbers(group: Ints, begin: Ints) -> tuple[Ints, Ints]:
    """Return the place of each operation in its group in order of time, and the size of the group."""
    order = np.lexsort((begin, group))
    sizes = np.bincount(group)
    firsts = np.cumsum(sizes) - sizes
    place = np.empty(len(group), dtype=np.int64)
    place[order] = np.arange(len(group)) - firsts[group[order]]
    return place, sizes[group]


def _in_order(timeline: WorkerTimeline, queue: Ints) -> Ints:
    """Link the operations of each queue in their order."""
    order = np.lexsort((timeline.end, timeline.begin, queue, timeline.step))
    same = (np.diff(queue[order]) == 0) & (np.diff(timeline.step[order]) == 0)
    return np.stack([order[:-1][same], order[1:][same]])


def _fed(timeline: WorkerTimeline, kind: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Link receive, computation and send of the same number; also say which transfers have a computation."""
    words = [found[0].lower() if (found := _DIRECTION.search(n)) else "" for n in timeline.names]
    of_name = np.array([("", "forward", "backward").index(word) for word in words])
    rows = np.flatnonzero((of_name[timeline.name] > 0) & (kind != COLLECTIVE))
    direction = of_name[timeline.name[rows]]
    group = codes(timeline.step[rows], timeline.worker[rows], direction, kind[rows])
    place, size = _numbers(group, timeline.begin[rows])
    same = codes(timeline.step[rows], timeline.worker[rows], direction, place, size)
    by_kind = {k: rows[kind[rows] == k] for k in (COMPUTE, SEND, RECEIVE)}
    at = np.full(len(kind), -1)
    at[rows] = same
    matched = np.zeros(len(kind), dtype=bool)
    links = []
    computed = np.full(int(same.max(initial=-1)) + 1, -1)
    computed[at[by_kind[COMPUTE]]] = by_kind[COMPUTE]
    for transfer in (SEND, RECEIVE):
        mine = by_kind[transfer]
        partner = computed[at[mine]]
        mine, partner = mine[partner >= 0], partner[partner >= 0]
        matched[mine] = True
        links.append(np.stack([partner, mine] if transfer == SEND else [mine, partner]))
    return np.concatenate(links, axis=1), matched


def _idle_until(timeline: WorkerTimeline, queue: Ints, counted: NDArray[np.bool_]) -> Ints:
    """Link each operation to the last one of each other queue that ended while its own queue idled."""
    around = codes(timeline.step, timeline.worker)
    span = int(timeline.end.max()) + 2 * ROUNDING_NS
    order = _in_order(timeline, queue)
    idle_from = np.full(len(queue), -ROUNDING_NS)
    idle_from[order[1]] = timeline.end[order[0]] - ROUNDING_NS
    firsts = np.full(int(timeline.worker.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(firsts, timeline.worker, queue)
    local = queue - firsts[timeline.worker]
    links = []
    for lane in np.unique(local[counted]).tolist():
        ended = np.flatnonzero(counted & (local == lane))
        moment = around[ended] * span + timeline.end[ended]
        by_time = np.argsort(moment, kind="stable")
        ended, moment = ended[by_time], moment[by_time]
        others = np.flatnonzero(counted & (local != lane))
        found = np.searchsorted(moment, around[others] * span + timeline.begin[others] + ROUNDING_NS, "right")
        last = ended[np.maximum(found - 1, 0)]
        waited = (found > 0) & (around[last] == around[others])
        waited &= (timeline.end[last] > idle_from[others]) & (timeline.begin[last] < timeline.begin[others])
        links.append(np.stack([last[waited], others[waited]]))
    return np.concatenate(links, axis=1)


def _groups(timeline: WorkerTimeline, kind: Ints) -> Ints:
    """Number the transfers and collectives that several workers take part in; -1 for all other operations."""
    found = np.full(len(kind), -1)
    replica, stage = timeline.replica[timeline.worker], timeline.stage[timeline.worker]
    place, _ = _numbers(codes(timeline.step, timeline.worker, timeline.name), timeline.begin)
    stages = int(stage.max()) + 1
    used = 0
    for name, word in enumerate(timeline.names):
        rows = np.flatnonzero(timeline.name == name)
        of = kind_of(word)
        if of == COLLECTIVE:
            for around in (0 * stage, stage, replica):
                group = codes(timeline.step[rows], place[rows], around[rows])
                if _end_together(timeline, rows, group):
                    found[rows] = used + group
                    used += int(group.max()) + 1
                    break
        elif of == SEND:
            partner = next((i for i, other in enumerate(timeline.names) if _answers(word, other)), None)
            if partner is None:
                continue
            received = np.flatnonzero(timeline.name == partner)
            onward = -1 if "back" in word.lower() else 1
            both = np.concatenate([rows, received])
            at = np.concatenate([(stage[rows] + onward) % stages, stage[received]])
            link = codes(timeline.step[both], replica[both], at)
            number, _ = _numbers(codes(link, timeline.name[both]), timeline.begin[both])
            group = codes(link, number)
            sizes = np.bincount(group)
            # A send without its receive is an operation of its own.
            found[both] = np.where(sizes[group] == 2, used + group, -1)
            used += len(sizes)
    return found


def _answers(send: str, receive: str) -> bool:
    """Return whether a receive has the name that belongs to a send's."""
    return kind_of(receive) == RECEIVE and _RECEIVES.sub("", receive) == _SENDS.sub("", send)


def _end_together(timeline: WorkerTimeline, rows: Ints, group: Ints) -> bool:
    """Return whether the operations of each group end at the same time, as members of a collective do."""
    size = int(group.max()) + 1
    if size == len(rows):
        return False
    first, last = np.full(size, np.iinfo(np.int64).max), np.zeros(size, dtype=np.int64)
    shortest = first.copy()
    np.minimum.at(first, group, timeline.end[rows])
    np.maximum.at(last, group, timeline.end[rows])
    np.minimum.at(shortest, group, timeline.end[rows] - timeline.begin[rows])
    return float(np.median((last - first) / np.maximum(shortest, 1))) <= END_SPREAD


def _levels(before: Ints, after: Ints, nodes: int) -> list[tuple[Ints, Ints, Ints]] | None:
    """Sort the graph by the longest way to each node; None if it has a cycle."""
    order = np.argsort(before, kind="stable")
    targets = after[order]
    first = np.searchsorted(before[order], np.arange(nodes + 1))
    left = np.bincount(after, minlength=nodes)
    level = np.full(nodes, -1)
    front, depth = np.flatnonzero(left == 0), 0
    while len(front):
        level[front] = depth
        many = first[front + 1] - first[front]
        starts = np.repeat(first[front] - np.cumsum(many) + many, many)
        reached = targets[starts + np.arange(len(starts))]
        np.subtract.at(left, reached, 1)
        reached = np.unique(reached)
        front, depth = reached[left[reached] == 0], depth + 1
    if (level < 0).any():
        return None
    order = np.lexsort((after, level[after]))
    before, after = before[order], after[order]
    edges = np.searchsorted(level[after], np.arange(1, depth + 1))
    found = []
    for i in range(depth - 1):
        some = slice(edges[i], edges[i + 1])
        reached, begins = np.unique(after[some], return_index=True)
        found.append((reached, before[some], begins))
    return found
