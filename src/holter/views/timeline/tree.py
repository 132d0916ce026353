"""Arranges the rows of a timeline as a tree: nodes, processes, and their threads, devices and counters."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from holter.schema.metrics import METRICS
from holter.views.timeline.reading import rows
from holter.views.timeline.values import series

if TYPE_CHECKING:
    from holter.views.timeline.lanes import Timeline
    from holter.views.timeline.reading import Lane

_HOST = ("phases", "annotations", "thread")

_FIRST = (
    "cpu.util",
    "mem.used_pct",
    "gpu.util",
    "gpu.mem.used_pct",
    "disk.read_bytes",
    "disk.write_bytes",
    "net.rx",
    "net.tx",
)
"""Metrics that are visible at once; all others are one level deeper."""


class TimelineRow(TypedDict):
    """A row of a timeline, or rows below one title."""

    kind: str
    name: str
    children: NotRequired[list[TimelineRow]]
    id: NotRequired[str]
    """That of a lane or of a series, which can be drawn."""
    lines: NotRequired[int]
    events: NotRequired[int]
    unit: NotRequired[str]
    """Of a metric."""
    rank: NotRequired[int]
    """Of a process."""
    lane: NotRequired[int]
    series: NotRequired[int]
    """The number of what `id` names, in the answers of a server."""


def tree(timeline: Timeline) -> list[TimelineRow]:
    """Return one entry a node of the job, with `kind`, `name`, and where something is below it `children`.

    Kinds: host, metrics, more (metrics that are asked for less), process, phases, annotations, thread,
    device, stream, stream_ranges, counters, metric, counter. Entries that can be drawn have an `id`: that of
    a lane (with `lines` and `events`), or of a series (with the `unit` of a metric).
    """
    names = _names(timeline)
    below: dict[str, dict[int, list[Lane]]] = defaultdict(lambda: defaultdict(list))
    for lane in timeline.lanes:
        below[lane.node][lane.rank].append(lane)
    counters: dict[tuple[str, int], list[TimelineRow]] = defaultdict(list)
    metrics: dict[str, list[TimelineRow]] = defaultdict(list)
    for one in series(timeline.reading):
        if one.is_metric:
            name = f"{one.name} {one.device}".rstrip()
            unit = METRICS[one.name].unit if one.name in METRICS else ""
            metrics[one.node].append({"kind": "metric", "id": one.id, "name": name, "unit": unit})
        else:
            counters[one.node, one.rank].append({"kind": "counter", "id": one.id, "name": one.name})
            below[one.node].setdefault(one.rank, [])
    found = []
    for node in sorted({*below, *metrics}):
        children = [_system(metrics[node])] if metrics[node] else []
        for rank, lanes in sorted(below[node].items()):
            children.append(_process(node, rank, lanes, names, counters[node, rank]))
        found.append(_group("host", node, children))
    return found


def _system(metrics: list[TimelineRow]) -> TimelineRow:
    def place(metric: TimelineRow) -> int:
        first = metric["name"].split(" ")[0]
        return _FIRST.index(first) if first in _FIRST else len(_FIRST)

    first = sorted((metric for metric in metrics if place(metric) < len(_FIRST)), key=place)
    rest = [metric for metric in metrics if place(metric) == len(_FIRST)]
    return _group("metrics", "system", first + ([_group("more", "all other metrics", rest)] if rest else []))


def _process(
    node: str,
    rank: int,
    lanes: list[Lane],
    names: dict[tuple[Any, ...], tuple[int, str]],
    counters: list[TimelineRow],
) -> TimelineRow:
    def called(lane: Lane) -> tuple[int, str]:
        return names.get((node, rank, lane.kind not in _HOST, lane.track), (0, ""))

    def place(lane: Lane) -> tuple[int, int, int]:
        return called(lane)[0], lane.track, _HOST.index(lane.kind)

    host = sorted((lane for lane in lanes if lane.kind in _HOST), key=place)
    children = [_drawn(lane, _title(lane, called(lane)[1])) for lane in host]
    devices: dict[int, list[Lane]] = defaultdict(list)
    for lane in lanes:
        if lane.kind not in _HOST:
            devices[lane.device].append(lane)
    for device, streams in sorted(devices.items()):
        streams.sort(key=lambda lane: (lane.track, lane.kind))
        inside = [_drawn(lane, _title(lane, called(lane)[1])) for lane in streams]
        children.append(_group("device", f"GPU {device}" if device >= 0 else "device", inside))
    if counters:
        children.append(_group("counters", "counters", counters))
    process = names.get((node, rank, False, None), (0, ""))[1]
    return {**_group("process", f"rank {rank}" + (f": {process}" if process else ""), children), "rank": rank}


def _drawn(lane: Lane, name: str) -> TimelineRow:
    return {"kind": lane.kind, "id": lane.id, "name": name, "lines": lane.lines, "events": lane.events}


def _group(kind: str, name: str, children: list[TimelineRow]) -> TimelineRow:
    return {"kind": kind, "name": name, "children": children}


def _title(lane: Lane, name: str) -> str:
    if lane.kind == "phases":
        who = f"worker {lane.device}" if lane.device >= 0 else "phases"
        return who + (f", thread {lane.track}" if lane.track else "")
    # Some traces hold the numbers of threads as signed 32 bits.
    number = lane.track + 2**32 if lane.track < 0 else lane.track
    own = name or f"{'stream' if lane.kind.startswith('stream') else 'thread'} {number}"
    return f"{own}: {lane.kind.replace('_', ' ')}" if lane.kind not in ("thread", "stream") else own


def _names(timeline: Timeline) -> dict[tuple[Any, ...], tuple[int, str]]:
    """Return position and name by node, rank, whether it is a stream, and number: None for a process."""
    query = (
        "SELECT node, rank, kind, thread, process, name, position FROM tracks "
        "WHERE kind <> 'device' ORDER BY ALL"
    )
    found: dict[tuple[Any, ...], tuple[int, str]] = {}
    for node, rank, kind, thread, process, name, position in rows(timeline.reading.ask(query)):
        text = f"{name} ({process})" if kind == "process" and name else name
        number = None if kind == "process" else thread
        found.setdefault((node, rank, kind == "stream", number), (position, text))
    return found
