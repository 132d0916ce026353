"""Computes the critical path of Holistic Trace Analysis: the longest path through a graph of events.

Each operator, call of the runtime, kernel and copy has a begin and an end. On a thread each is followed by
the next, the time between belongs to whatever was running; between two outermost operators no time passes. A
kernel waits for its launch where nothing was queued, else for the one before it on its stream. Waits of
streams and of the host lead from the work that they wait for to the waiting work, and take no time of their
own; nor do calls that only wait.
"""

from __future__ import annotations

import json
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.analysis.device.launching import HTA_CALLS
from holter.analysis.device.work import Work, device_work, hta_rounded, launch_of, matching
from holter.analysis.host.operator_tree import host
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PARTS = (
    "cpu_bound",
    "gpu_compute_bound",
    "gpu_communication_bound",
    "gpu_kernel_kernel_overhead",
    "gpu_kernel_launch_overhead",
)
_BLOCKING = (
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventQuery",
    "cudaEventSynchronize",
    "cudaMemcpy",
    "cudaMemcpyAsync",
)
_COLUMNS = {"duration": np.int64, "part": object, "name": object}
_CALLS = (*HTA_CALLS, "cuLaunchKernel")


class Edge(NamedTuple):
    """An edge from one node to the next, with its kind and the event that takes its time."""

    begin: int
    weight: int
    part: str
    name: str


class Graph:
    """Nodes are numbers: twice the event's for its begin, one more for its end."""

    def __init__(self) -> None:
        self.into: defaultdict[int, dict[int, Edge]] = defaultdict(dict)

    def add(self, begin: int, end: int, weight: int, part: str = "", name: str = "") -> None:
        """Add an edge; of two between the same nodes the last counts."""
        self.into[end][begin] = Edge(begin, max(weight, 0), part, name)

    def longest(self) -> list[Edge]:
        """Return the edges of the longest path, in order; raises `ValueError` for a graph with a cycle."""
        best: dict[int, tuple[int, Edge | None]] = {}
        before = {node: edges.keys() for node, edges in self.into.items()}
        try:
            for node in TopologicalSorter(before).static_order():
                edges = self.into[node].values() if node in before else ()
                reached = [(best[edge.begin][0] + edge.weight, edge) for edge in edges]
                best[node] = max(reached, key=itemgetter(0), default=(0, None))
        except CycleError:
            raise ValueError("the events of the trace lead back to themselves") from None
        path: list[Edge] = []
        _, edge = max(best.values(), key=itemgetter(0), default=(0, None))
        while edge is not None:
            path.append(edge)
            edge = best[edge.begin][1]
        return path[::-1]


def hta_critical_path(
    tables: Mapping[str, Table], annotation: str = "ProfilerStep", instance: int = 0
) -> Table:
    """Return the critical path of the lowest rank as HTA's `critical_path_analysis`.

    Args:
        tables: `operators` with their details, `launches`, `syncs`, `kernels`, `memory_operations`.
        annotation: A part of the name of the annotation to look within; empty for the whole trace.
        instance: Which of them, in the order of the trace.

    Returns:
        duration (ns), part (one of `PARTS`), name (of the event it belongs to), in the order of the path; no
        rows where there is no such annotation.

    Raises:
        ValueError: The events contradict one another.
    """
    operators = tables.get("operators") or Table.empty("operators")
    if not operators.rows:
        return Table.of_tuples(_COLUMNS, [])
    rank = int(operators["rank"].min())
    mine = {name: table.where(table["rank"] == rank) for name, table in tables.items() if "rank" in table}
    window = _window(mine["operators"], annotation, instance)
    if window is None:
        return Table.of_tuples(_COLUMNS, [])
    graph = Graph()
    first = _threads(graph, mine, window)
    _devices(graph, mine, window, first)
    return Table.of_tuples(_COLUMNS, [edge[1:] for edge in graph.longest()])


def _window(operators: Table, annotation: str, instance: int) -> tuple[int, int] | None:
    if not annotation:
        return (-(2**62), 2**62)
    rows = operators.where(operators["kind"] == "annotation").sorted("time")
    found = rows.where(matching(rows["name"], lambda name: annotation in name))
    if not 0 <= instance < found.rows:
        return None
    begin, end = hta_rounded(found["time"], found["time"] + found["duration"])
    return int(begin[instance]), int(end[instance])


class _StreamWait(NamedTuple):
    """A wait that the trace lays over a stream."""

    name: str
    begin: int
    end: int
    stream: int
    correlation: int
    record: int | None
    """Correlation of the call that recorded the awaited event."""
    awaited_stream: int


class _Calls(NamedTuple):
    """Events of the host in the graph, by what finds them."""

    launches: dict[int, int]
    """Correlation → event."""
    waits: list[tuple[int, int, int]]
    """Begin, end and event of each call that waits."""
    events: int
    """How many the thread's side has; those of devices are numbered behind them."""


def _threads(graph: Graph, tables: Mapping[str, Table], window: tuple[int, int]) -> _Calls:
    """Add the events of each thread."""
    tree = host(tables)
    begin, end = hta_rounded(tree.begin, tree.end)
    counted = np.isin(tree.kind, ("operator", "runtime", "launch", "sync"))
    chosen = np.flatnonzero(counted & (begin >= window[0]) & (begin <= window[1]) & (end > begin))
    calls = _Calls({}, [], len(tree.begin))
    stack: list[int] = []
    last, highest, thread = -1, -1, None
    names = tree.words(np.arange(len(tree.begin)))
    time = {2 * e: int(begin[e]) for e in chosen.tolist()} | {2 * e + 1: int(end[e]) for e in chosen.tolist()}

    def leave() -> None:
        nonlocal last, highest
        event = stack.pop()
        waits = names[event] in _BLOCKING
        weight = 0 if waits else time[2 * event + 1] - time[last]
        owner = event if last % 2 else last // 2
        graph.add(last, 2 * event + 1, weight, "cpu_bound", names[owner])
        last, highest = (2 * event + 1, highest) if stack else (-1, 2 * event + 1)

    for event in chosen.tolist():
        if tree.thread[event] != thread:
            while stack:
                leave()
            thread, last, highest = tree.thread[event], -1, -1
        while stack and time[2 * stack[-1] + 1] <= time[2 * event]:
            leave()
        if last >= 0:
            owner = last // 2 if not last % 2 else stack[-1]
            graph.add(last, 2 * event, time[2 * event] - time[last], "cpu_bound", names[owner])
        elif highest >= 0:
            graph.add(highest, 2 * event, 0)
        stack.append(event)
        last = 2 * event
        if tree.kind[event] == "launch":
            calls.launches[int(tree.correlation[event])] = event
        if names[event] in _BLOCKING:
            calls.waits.append((time[2 * event], time[2 * event + 1], event))
    while stack:
        leave()
    return calls


def _devices(graph: Graph, tables: Mapping[str, Table], window: tuple[int, int], calls: _Calls) -> None:
    """Add the work of devices and the waits for it."""
    launches = tables["launches"]
    work = device_work(tables)
    begin, end = hta_rounded(work.begin, work.end)
    called = launch_of(work, launches)
    asked, returned = hta_rounded(launches["time"], launches["time"] + launches["duration"])
    within = (asked >= window[0]) & (asked <= window[1]) & (returned > asked)
    ahead, left = _queued(work, begin, asked, called, launches)
    by_correlation = np.argsort(work.correlation, kind="stable")
    numbers = work.correlation[by_correlation]

    def neighbor(correlation: int, stream: int, *, before: bool) -> int:
        """Return the work of a stream asked for last before a call, or first after it; -1 for none."""
        here = np.searchsorted(numbers, correlation, "left" if before else "right")
        some = by_correlation[:here][::-1] if before else by_correlation[here:]
        found = some[(work.stream[some] == stream) & (called[some] >= 0)]
        return int(found[0]) if len(found) else -1

    waits = _waits(tables["operators"])
    order: list[tuple[int, int, int]] = [
        (int(begin[w]), 0, w) for w in range(len(begin)) if called[w] >= 0 and within[called[w]]
    ]
    order += [(wait.end, 1, n) for n, wait in enumerate(waits)]
    nodes = {w: calls.events + w for _, kind, w in order if kind == 0}
    last: dict[int, int] = {}
    synced: dict[int, int] = {}
    for _, is_wait, which in sorted(order):
        if is_wait:
            _wait(graph, waits[which], neighbor, nodes, last, synced, calls)
            continue
        w, node = which, nodes[which]
        name, stream, launch = work.names[int(work.name[w])], int(work.stream[w]), int(called[w])
        kind = "gpu_communication_bound" if "nccl" in name.lower() else "gpu_compute_bound"
        graph.add(2 * node, 2 * node + 1, int(end[w] - begin[w]), kind, name)
        earlier, other = last.get(stream, -1), synced.get(w, -1)
        other = other if other in nodes else -1
        if other >= 0:
            graph.add(2 * nodes[other] + 1, 2 * node, 0)
        at = int(asked[launch])
        idle = ahead[w] == 1 and left[w] == 0
        if idle and (earlier < 0 or end[earlier] < at) and (other < 0 or end[other] < at):
            event = calls.launches.get(int(work.correlation[w]), -1)
            if event >= 0:
                graph.add(2 * event, 2 * node, int(begin[w]) - at, "gpu_kernel_launch_overhead", name)
        elif earlier >= 0 and (other < 0 or end[other] < end[earlier]):
            gap, owner = int(begin[w] - end[earlier]), work.names[int(work.name[earlier])]
            graph.add(2 * nodes[earlier] + 1, 2 * node, gap, "gpu_kernel_kernel_overhead", owner)
        last[stream] = w


def _wait(
    graph: Graph, wait: _StreamWait, neighbor: Callable[..., int], nodes: Mapping[int, int],
    last: dict[int, int], synced: dict[int, int], calls: _Calls,
) -> None:  # fmt: skip
    """Add one wait: of a stream for work of another, or of the host for work, streams or all."""
    if wait.name == "Stream Wait Event":
        if wait.record is not None:
            source = neighbor(wait.record, wait.awaited_stream, before=True)
            target = neighbor(wait.correlation, wait.stream, before=False)
            if source >= 0 and target >= 0:
                synced[target] = source
        return
    caller = next((e for b, until, e in calls.waits if b <= wait.begin and wait.end <= until), -1)
    if caller < 0:
        return
    sources = [last.get(wait.stream, -1)]
    if wait.name == "Event Sync":
        known = wait.record is not None
        sources = [neighbor(wait.record, wait.awaited_stream, before=True)] if known else []
    elif wait.name == "Context Sync":
        sources = list(last.values())
    for source in sources:
        if source in nodes:
            graph.add(2 * nodes[source] + 1, 2 * caller + 1, 0)


def _queued(work: Work, begin: Any, asked: Any, called: Any, launches: Table) -> tuple[Any, Any]:
    """Return how many waited on the stream of each work: right after its launch, and after it began."""
    known = called >= 0
    known[known] = np.isin(launches["name"], _CALLS)[called[known]]
    ahead, left = np.zeros((2, len(begin)), np.int64)
    for stream in np.unique(work.stream[known]).tolist():
        rows = np.flatnonzero(known & (work.stream == stream))
        time = np.concatenate([asked[called[rows]], begin[rows]])
        change = np.repeat([1, -1], len(rows))
        order = np.argsort(time, kind="stable")
        length = np.empty(len(order), np.int64)
        length[order] = np.cumsum(change[order])
        ahead[rows], left[rows] = length[: len(rows)], length[len(rows) :]
    return ahead, left


def _waits(operators: Table) -> list[_StreamWait]:
    """Return the waits that the trace lays over streams, with the numbers of their details."""
    rows = operators.where(operators["kind"] == "device_wait")
    begin, end = hta_rounded(rows["time"], rows["time"] + rows["duration"])
    found = []
    columns = (rows["name"].tolist(), rows["detail"].tolist(), begin.tolist(), end.tolist())
    for name, detail, began, ended in zip(*columns, strict=True):
        try:
            read = json.loads(detail or "{}")
        except ValueError:
            read = {}
        known = {key: value for key, value in read.items() if isinstance(value, int)}
        record, awaited = known.get("wait_on_cuda_event_record_corr_id"), known.get("wait_on_stream", -1)
        where = known.get("stream", -1), known.get("correlation", 0)
        found.append(_StreamWait(name, began, ended, *where, record, awaited))
    return found
