"""The rows of a timeline as a tree: node, then its processes, and in each its threads, devices and counters."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from holter.views.timeline_reading import rows
from holter.views.timeline_values import series

if TYPE_CHECKING:
    from holter.views.timeline import Timeline
    from holter.views.timeline_reading import Lane

_HOST = ("phases", "annotations", "thread")

Node = dict[str, Any]


def tree(timeline: Timeline) -> list[Node]:
    """Return one entry a node of the job, each with `kind`, `name`, and where there is something below, `children`.

    Kinds: host, metrics, process, phases, annotations, thread, device, stream, counters, metric, counter. Entries
    that can be drawn have an `id`: that of a lane (with `lines` and `events`), or of a series.
    """
    names = _names(timeline)
    below: dict[str, dict[int, list[Lane]]] = defaultdict(lambda: defaultdict(list))
    for lane in timeline.lanes:
        below[lane.node][lane.rank].append(lane)
    counters: dict[tuple[str, int], list[Node]] = defaultdict(list)
    metrics: dict[str, list[Node]] = defaultdict(list)
    for one in series(timeline.reading):
        if one.is_metric:
            name = f"{one.name} {one.device}".rstrip()
            metrics[one.node].append({"kind": "metric", "id": one.id, "name": name})
        else:
            counters[one.node, one.rank].append({"kind": "counter", "id": one.id, "name": one.name})
            below[one.node].setdefault(one.rank, [])
    found = []
    for node in sorted({*below, *metrics}):
        children = [_shelf("metrics", "system", metrics[node])] if metrics[node] else []
        for rank, lanes in sorted(below[node].items()):
            children.append(_process(node, rank, lanes, names, counters[node, rank]))
        found.append(_shelf("host", node, children))
    return found


def _process(
    node: str,
    rank: int,
    lanes: list[Lane],
    names: dict[tuple[Any, ...], tuple[int, str]],
    counters: list[Node],
) -> Node:
    def called(lane: Lane) -> tuple[int, str]:
        return names.get((node, rank, lane.kind == "stream", lane.track), (0, ""))

    children = []
    for lane in sorted(
        (l for l in lanes if l.kind in _HOST), key=lambda l: (called(l)[0], l.track, _HOST.index(l.kind))
    ):
        children.append(_drawn(lane, _title(lane, called(lane)[1])))
    devices: dict[int, list[Lane]] = defaultdict(list)
    for lane in lanes:
        if lane.kind not in _HOST:
            devices[lane.device].append(lane)
    for device, streams in sorted(devices.items()):
        inside = [
            _drawn(s, _title(s, called(s)[1])) for s in sorted(streams, key=lambda l: (l.track, l.kind))
        ]
        children.append(_shelf("device", f"GPU {device}" if device >= 0 else "device", inside))
    if counters:
        children.append(_shelf("counters", "counters", counters))
    process = names.get((node, rank, False, None), (0, ""))[1]
    return _shelf("process", f"rank {rank}" + (f": {process}" if process else ""), children)


def _drawn(lane: Lane, name: str) -> Node:
    return {"kind": lane.kind, "id": lane.id, "name": name, "lines": lane.lines, "events": lane.events}


def _shelf(kind: str, name: str, children: list[Node]) -> Node:
    return {"kind": kind, "name": name, "children": children}


def _title(lane: Lane, name: str) -> str:
    if lane.kind == "phases":
        who = f"worker {lane.device}" if lane.device >= 0 else "phases"
        return who + (f", thread {lane.track}" if lane.track else "")
    own = name or f"{'stream' if lane.kind.startswith('stream') else 'thread'} {lane.track}"
    return f"{own}: {lane.kind.replace('_', ' ')}" if lane.kind not in ("thread", "stream") else own


def _names(timeline: Timeline) -> dict[tuple[Any, ...], tuple[int, str]]:
    """Return position and name by node, rank, whether it is a stream, and number; of a process, number None."""
    query = "SELECT node, rank, kind, thread, process, name, position FROM tracks WHERE kind <> 'device' ORDER BY ALL"
    found: dict[tuple[Any, ...], tuple[int, str]] = {}
    for node, rank, kind, thread, process, name, position in rows(timeline.reading.ask(query)):
        text = f"{name} ({process})" if kind == "process" and name else name
        number = None if kind == "process" else thread
        found.setdefault((node, rank, kind == "stream", number), (position, text))
    return found
