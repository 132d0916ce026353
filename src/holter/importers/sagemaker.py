"""Import what SageMaker keeps in `profiler-output`: system metrics, events of the hooks, other timelines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from holter.importers import chrome_json
from holter.importers.report import UnreadableError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from holter.importers.trace import Trace

FORMAT = "sagemaker"

_SYSTEM = re.compile(r"\d{10}\.(algo-\d+)\.json(\.corrupt)?")
_EVENTS = re.compile(r"\d+_(?P<node>.+)_(python|model|horovod|smdataparallel)_?timeline\.json")
_RANKED = re.compile(r"(\d{1,6})-algo-\d+")
METADATA = re.compile(r"(.+)_(\d{10,17})_(\d{10,17})\.metadata")
_STATISTICS = ("python_stats", "python_stats.json")
_LINES = 20_000
METRICS = {
    ("cpu", "CPUUtilization"): "cpu.core.util",
    ("cpu", "I/OWaitPercentage"): "cpu.core.iowait",
    ("gpu", "GPUUtilization"): "gpu.util",
    ("gpu", "GPUMemoryUtilization"): "gpu.mem.used_pct",
    ("memory", "MemoryUsedPercent"): "mem.used_pct",
    ("i/o", "IOPS"): "disk.iops",
    ("i/o", "ReadThroughputInBytesPerSecond"): "disk.read_bytes",
    ("i/o", "WriteThroughputInBytesPerSecond"): "disk.write_bytes",
    ("network", "ReceiveBytesPerSecond"): "net.rx",
    ("network", "TransmitBytesPerSecond"): "net.tx",
}
"""Our metric by type, and by the dimension of metrics of a device or the name of the others."""


class Reading(msgspec.Struct, gc=False):
    """One line of a file of system metrics; time in seconds since the epoch."""

    type: str = msgspec.field(name="Type")
    value: float = msgspec.field(name="Value")
    timestamp: float = msgspec.field(name="Timestamp")
    dimension: str | None = msgspec.field(default=None, name="Dimension")
    name: str | None = msgspec.field(default=None, name="Name")
    node: str | None = msgspec.field(default=None, name="NodeId")


def recognizes(path: Path) -> bool:
    """Tell whether a file is of SageMaker, by its name and the folder it lies in."""
    if _SYSTEM.fullmatch(path.name):
        return True
    if "detailed_profiling" in path.parts and path.name.endswith(".trace.json.gz"):
        return True
    return path.name in _STATISTICS or _EVENTS.fullmatch(path.name) is not None


def read(path: Path, trace: Trace) -> None:
    """Read a file into a trace.

    Raises:
        UnreadableError: Nothing of it can be read.
        OSError: It cannot be opened.
    """
    if system := _SYSTEM.fullmatch(path.name):
        trace.rank = -1
        trace.node = system[1]
        _system(path, trace)
        return
    if path.name in _STATISTICS:
        raise UnreadableError("statistics of cProfile and pyinstrument are not imported")
    if events := _EVENTS.fullmatch(path.name):
        trace.owner = events["node"]
        if ranked := _RANKED.fullmatch(trace.owner):
            trace.rank = int(ranked[1])
        chrome_json.read(path, trace)
        return
    # TensorFlow's own times begin with the window: when that was, an empty file beside tells by its name.
    chrome_json.read(path, trace)
    for folder in path.parents[:6]:
        found = [match for p in folder.glob("*.metadata") if (match := METADATA.fullmatch(p.name))]
        if found:
            trace.owner, trace.offset_ns = found[0][1], int(found[0][2]) * 1000
            return
    trace.notes.append("no metadata file says when it began: its times are since the start of its window")


def _system(path: Path, trace: Trace) -> None:
    """Read lines of JSON; a bad one costs only itself."""
    readings: list[Reading] = []
    for reading in lines(path, trace.skipped):
        readings.append(reading)
        trace.events += 1
        if len(readings) >= _LINES:
            _append(trace, readings)
            readings = []
    _append(trace, readings)
    if not trace.events:
        raise UnreadableError("none of its lines is a reading of a metric")


def lines(path: Path, skipped: Counter[str]) -> Iterator[Reading]:
    """Yield the readings of a file of system metrics; counts the lines that are none."""
    decode = msgspec.json.Decoder(Reading).decode
    with path.open("rb") as file:
        while line := file.readline(1 << 20):
            if line.strip():
                try:
                    yield decode(line)
                except (ValueError, RecursionError):
                    skipped["a line that is no reading"] += 1


def _append(trace: Trace, readings: list[Reading]) -> None:
    known = [(r, metric, device) for r in readings if (metric := _metric(r)) for device in [_device(r)]]
    if len(known) < len(readings):
        trace.skipped["a metric that is not known"] += len(readings) - len(known)
    seconds = np.array([r.timestamp for r, _, _ in known], np.float64)
    trace.append(
        "samples",
        time=chrome_json.nanoseconds((seconds * 1e6).tolist()),
        device=trace.text([device for _, _, device in known]),
        metric=trace.text([metric for _, metric, _ in known]),
        value=np.array([r.value for r, _, _ in known], np.float64),
    )


def _metric(reading: Reading) -> str | None:
    return METRICS.get((reading.type, reading.dimension or "")) or METRICS.get(
        (reading.type, reading.name or "")
    )


def _device(reading: Reading) -> str:
    if reading.type == "network":
        return "" if reading.dimension in ("Algorithm", "", None) else reading.dimension.lower()
    return reading.name or "" if reading.type in ("cpu", "gpu") else ""
