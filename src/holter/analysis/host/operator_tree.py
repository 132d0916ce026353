"""Builds the call tree of the host: operators with own and total time, modules and gradients."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.analysis.device.work import device_work, launch_of
from holter.schema.table import NameCodes, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.analysis.device.work import Ints

DEVICE_SIDE = ("device_annotation", "device_wait")
"""Kinds of rows in `operators` that lie on streams, not on threads."""


ROUNDING_NS = 1000
"""So much longer than the event around it an event may be: old traces have whole microseconds."""


class Host(NamedTuple):
    """Events of host threads with their parents; sorted by rank, thread and begin."""

    rank: Ints
    thread: Ints
    begin: Ints
    end: Ints
    name: Ints
    """Index into `names`."""
    names: tuple[str, ...]
    kind: NDArray[Any]
    """That of table `operators`, or launch, or sync."""
    parent: Ints
    """Index of the enclosing event on its thread; -1 without one."""
    correlation: Ints
    """Of launches; else 0."""
    row: Ints
    """Row of table `operators`; -1 for launches and syncs."""

    @property
    def total_ns(self) -> Ints:
        """From begin to end."""
        return self.end - self.begin

    @property
    def own_ns(self) -> Ints:
        """Total time without that of the events directly inside."""
        return own(self.total_ns, self.parent)

    def words(self, which: Ints) -> list[str]:
        """Return the names of some events."""
        return [self.names[i] for i in self.name[which].tolist()]


def host(tables: Mapping[str, Table]) -> Host:
    """Put operators, annotations, Python functions, calls of the runtime, launches and syncs into one tree.

    An event that outlives the one it began in, as the annotation of a step that a function opens, is not
    inside that one but follows it.
    """
    operators, launches, syncs = (tables.get(n) or Table.empty(n) for n in ("operators", "launches", "syncs"))
    rows = np.flatnonzero(~np.isin(operators["kind"], DEVICE_SIDE))
    operators = operators.where(rows)
    parts = (operators, launches, syncs)

    def joined(column: str) -> Ints:
        return np.concatenate([part[column] for part in parts]).astype(np.int64)

    kinds = [operators["kind"], np.full(launches.rows, "launch", object), np.full(syncs.rows, "sync", object)]
    correlation = np.zeros(sum(part.rows for part in parts), dtype=np.int64)
    correlation[operators.rows : operators.rows + launches.rows] = launches["correlation"]
    rank, thread, begin = joined("rank"), joined("thread"), joined("time")
    end = begin + joined("duration")
    names = NameCodes()
    name = names.codes(np.concatenate([part["name"] for part in parts]))
    order = np.lexsort((-end, begin, thread, rank))
    rank, thread, begin, end = rank[order], thread[order], begin[order], end[order]
    same = np.concatenate([[False], (np.diff(rank) == 0) & (np.diff(thread) == 0)]) if len(rank) else rank > 0
    where = np.concatenate([rows, np.full(launches.rows + syncs.rows, -1)])
    return Host(
        rank,
        thread,
        begin,
        end,
        name[order],
        tuple(names),
        np.concatenate(kinds)[order],
        _parents(begin, end, same),
        correlation[order],
        where[order],
    )


def _parents(begin: Ints, end: Ints, same: NDArray[Any]) -> Ints:
    """Return the event that each lies in: events of a thread nest, so the parents so far are the stack."""
    ends, found = end.tolist(), [-1] * len(end)
    starts = begin.tolist()
    firsts = np.flatnonzero(~same).tolist()
    for first, behind in pairwise([*firsts, len(ends)]):
        top = -1
        for i in range(first, behind):
            while top >= 0 and ((until := ends[top]) <= starts[i] or until + ROUNDING_NS < ends[i]):
                top = found[top]
            found[i] = top
            top = i
    return np.array(found, dtype=np.int64)


def own(total: Ints, parent: Ints) -> Ints:
    """Compute own time: subtract the time of its children from each event."""
    inside = parent >= 0
    below = np.bincount(parent[inside], weights=total[inside], minlength=len(total))
    return np.asarray(total - below.astype(np.int64), dtype=np.int64)


def device_time(tree: Host, tables: Mapping[str, Table]) -> Ints:
    """Return how long what each event launched ran, what the events inside it launched included, ns."""
    work = device_work(tables)
    launches = Table(
        {"rank": tree.rank, "correlation": np.where(tree.kind == "launch", tree.correlation, -1)}
    )
    called = launch_of(work, launches)
    ran = np.zeros(len(tree.begin), dtype=np.int64)
    known = called >= 0
    np.add.at(ran, called[known], work.duration[known])
    at = np.flatnonzero(ran)
    launched = ran[at]
    while len(at):
        at = tree.parent[at]
        launched, at = launched[at >= 0], at[at >= 0]
        np.add.at(ran, at, launched)
    return ran


def operator_table(
    tables: Mapping[str, Table],
    *,
    kinds: tuple[str, ...] = ("operator",),
    most: int | None = None,
    tree: Host | None = None,
) -> Table:
    """Add up the host's events of each name.

    Args:
        tables: `operators`, `launches`, `syncs`; for device times also `kernels` and `memory_operations`.
        kinds: Which events: operator, python, module, annotation, runtime, launch, sync.
        most: Rows to keep; all by default.
        tree: The result of `host`, if it is already computed.

    Returns:
        name, kind, calls, total_ns (not counted twice where it calls itself), own_ns, device_ns (of what it
        launched, directly or below), the largest own time first.
    """
    tree = host(tables) if tree is None else tree
    ran = device_time(tree, tables)
    chosen = np.flatnonzero(np.isin(tree.kind, kinds))
    outer = chosen[~_inside_itself(tree, chosen)]
    count = len(tree.names)

    def summed(which: Ints, weights: Ints) -> Ints:
        return np.bincount(tree.name[which], weights=weights[which], minlength=count).astype(np.int64)

    calls = np.bincount(tree.name[chosen], minlength=count)
    total, own_ns, device = summed(outer, tree.total_ns), summed(chosen, tree.own_ns), summed(outer, ran)
    some = np.flatnonzero(calls)
    order = some[np.argsort(-own_ns[some], kind="stable")][:most]
    kind = np.full(count, "", dtype=object)
    kind[tree.name[chosen]] = tree.kind[chosen]
    return Table(
        {
            "name": np.array(tree.names, dtype=object)[order] if count else np.empty(0, object),
            "kind": kind[order],
            "calls": calls[order],
            "total_ns": total[order],
            "own_ns": own_ns[order],
            "device_ns": device[order],
        }
    )


def _inside_itself(tree: Host, chosen: Ints) -> NDArray[np.bool_]:
    """Return which events have an ancestor of the same name."""
    nested = np.zeros(len(chosen), dtype=bool)
    at = tree.parent[chosen]
    left = np.arange(len(chosen))
    while len(left):
        left = left[at[left] >= 0]
        same = tree.name[at[left]] == tree.name[chosen[left]]
        nested[left[same]] = True
        left = left[~same]
        at[left] = tree.parent[at[left]]
    return nested


def module_table(tables: Mapping[str, Table]) -> Table:
    """Add up the calls of each module of the model, as `operator_table` with what the trace calls modules.

    Needs a trace with Python stacks: there a call of a module is an event of its own.
    """
    return operator_table(tables, kinds=("module",))


class Links(NamedTuple):
    """Operators of the forward pass and those of the backward pass that belong to them."""

    forward: Ints
    """Index into the events of `Host`."""
    backward: Ints


def forward_backward(tree: Host, flows: Table) -> Links:
    """Find the operators at both ends of the arrows between forward and backward pass.

    Args:
        tree: What `host` returns.
        flows: Table `flows`.

    Returns:
        One pair an arrow with both ends on an operator: the innermost one that runs there, on that thread.
    """
    arrows = flows.where(flows["kind"] == "forward_backward")
    begin = _running(tree, arrows["rank"], arrows["thread"], arrows["time"])
    end = _running(tree, arrows["rank"], arrows["target"], arrows["time"] + arrows["duration"])
    both = (begin >= 0) & (end >= 0)
    return Links(begin[both], end[both])


def _running(tree: Host, rank: NDArray[Any], thread: NDArray[Any], time: NDArray[Any]) -> Ints:
    """Return the outermost event that begins at a time on a thread, or else the innermost that runs then."""
    found = np.full(len(time), -1, dtype=np.int64)
    for r, t in {*zip(rank.tolist(), thread.tolist(), strict=True)}:
        mine = np.flatnonzero((tree.rank == r) & (tree.thread == t))
        which = np.flatnonzero((rank == r) & (thread == t))
        if not len(mine):
            continue
        at = mine[np.maximum(np.searchsorted(tree.begin[mine], time[which], side="right") - 1, 0)]
        for _ in range(1000):  # bounded: deeper than any stack
            out = (at >= 0) & (tree.end[at] <= time[which]) & (tree.begin[at] < time[which])
            if not out.any():
                break
            at[out] = tree.parent[at[out]]
        ok = (at >= 0) & (tree.begin[at] <= time[which])
        found[which[ok]] = at[ok]
    return found


def named(tables: Mapping[str, Table], pattern: Any) -> Table:
    """Return the rows of `operators` on threads whose name a compiled pattern finds."""
    operators = tables.get("operators") or Table.empty("operators")
    (code, names), (kind, kinds) = operators.coded("name"), operators.coded("kind")
    found = np.array([bool(pattern.search(name)) for name in names], bool)
    on_threads = np.array([word not in DEVICE_SIDE for word in kinds], bool)
    return operators.where(found[code] & on_threads[kind])
