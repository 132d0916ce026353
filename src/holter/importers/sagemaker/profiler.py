"""Import what SageMaker keeps in `profiler-output`: system metrics, events of the hooks, other timelines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from holter.importers.kineto import chrome_json
from holter.importers.kineto.moments import nanoseconds
from holter.importers.report import UnreadableError
from holter.importers.sagemaker.phases import Phases

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.importers.trace import Trace

FORMAT = "sagemaker"

_SYSTEM = re.compile(r"\d{10}\.(algo-\d+)\.json(\.corrupt)?")
_EVENTS = re.compile(r"\d+_(?P<node>.+)_(python|model|horovod|smdataparallel)_?timeline\.json")
_RANKED = re.compile(r"(\d{1,6})-(algo-\d+)")
METADATA = re.compile(r"(.+)_(\d{10,17})_(\d{10,17})\.metadata")
_STATISTICS = ("python_stats", "python_stats.json")
_LINES = 20_000
TOLERANCE_NS = 20_000_000
"""Readings this close are of one snapshot."""
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


class MetricReading(msgspec.Struct, gc=False):
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
            trace.rank, trace.node = int(ranked[1]), ranked[2]
        phases = Phases(trace)
        chrome_json.read(path, trace, rest=phases.rest if events[2] == "python" else None)
        phases.close()
        return
    # TensorFlow's times begin with the window; the name of an empty file in the same folder holds that time.
    chrome_json.read(path, trace)
    for folder in path.parents[:6]:
        found = [match for p in folder.glob("*.metadata") if (match := METADATA.fullmatch(p.name))]
        if found:
            trace.owner, trace.offset_ns = found[0][1], int(found[0][2]) * 1000
            return
    trace.notes.append("no metadata file says when it began: its times are since the start of its window")


def _system(path: Path, trace: Trace) -> None:
    """Read lines of JSON; a bad one costs only itself."""
    readings: list[MetricReading] = []
    for reading in lines(path, trace.skipped):
        # A block ends between two snapshots, so that each has all its cores.
        apart = bool(readings) and reading.timestamp - readings[-1].timestamp > TOLERANCE_NS / 1e9
        if len(readings) >= (_LINES if apart else 10 * _LINES):
            _append(trace, readings)
            readings = []
        readings.append(reading)
        trace.events += 1
    _append(trace, readings)
    if not trace.events:
        raise UnreadableError("none of its lines is a reading of a metric")


def lines(path: Path, skipped: Counter[str]) -> Iterator[MetricReading]:
    """Yield the readings of a file of system metrics; counts the lines that cannot be read."""
    decode = msgspec.json.Decoder(MetricReading).decode
    with path.open("rb") as file:
        while line := file.readline(1 << 20):
            if text := line.strip(b" \t\r\n,[]"):  # the first versions wrote a list
                try:
                    yield decode(text)
                except (ValueError, RecursionError):
                    skipped["a line without a reading"] += 1


def _append(trace: Trace, readings: list[MetricReading]) -> None:
    known = [(r, metric, device) for r in readings if (metric := _metric(r)) for device in [_device(r)]]
    if len(known) < len(readings):
        trace.skipped["a metric that is not known"] += len(readings) - len(known)
    seconds = np.array([r.timestamp for r, _, _ in known], np.float64)
    time = nanoseconds((seconds * 1e6).tolist())
    value = np.array([r.value for r, _, _ in known], np.float64)
    metrics = [metric for _, metric, _ in known]
    trace.append(
        "samples",
        time=time,
        device=trace.text([device for _, _, device in known]),
        metric=trace.text(metrics),
        value=value,
    )
    cores = {device for _, metric, device in known if metric == "cpu.core.util"}
    trace.cpus = max(trace.cpus, len(cores))
    for of_cores, of_all in (("cpu.core.util", "cpu.util"), ("cpu.core.iowait", "cpu.iowait")):
        mine = np.flatnonzero(np.array(metrics, object) == of_cores)
        if len(mine):
            _append_mean(trace, time[mine], value[mine], of_all)


def _append_mean(trace: Trace, time: NDArray[np.int64], value: NDArray[np.float64], metric: str) -> None:
    """Take in the mean of all cores at each snapshot, which SageMaker leaves to its readers."""
    order = np.argsort(time, kind="stable")
    time, value = time[order], value[order]
    first = np.flatnonzero(np.concatenate([[True], np.diff(time) > TOLERANCE_NS]))
    trace.append(
        "samples",
        time=time[first],
        device=trace.same("", len(first)),
        metric=trace.same(metric, len(first)),
        value=np.add.reduceat(value, first) / np.diff(np.append(first, len(time))),
    )


def _metric(reading: MetricReading) -> str | None:
    return METRICS.get((reading.type, reading.dimension or "")) or METRICS.get(
        (reading.type, reading.name or "")
    )


def _device(reading: MetricReading) -> str:
    if reading.type == "network":
        return "" if reading.dimension in ("Algorithm", "", None) else reading.dimension.lower()
    return reading.name or "" if reading.type in ("cpu", "gpu") else ""
