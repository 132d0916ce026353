"""Names that PyTorch's profiler uses in Chrome's trace events: categories, copies, arguments of kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from holter.report.exports import _merged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.schema.table import Table

CATEGORIES = {
    "operator": "cpu_op",
    "python": "python_function",
    "module": "python_function",
    "annotation": "user_annotation",
    "runtime": "cuda_runtime",
    "device_annotation": "gpu_user_annotation",
    "device_wait": "cuda_sync",
}
"""Categories of operators by their kind; other kinds are their own category."""

_COPIES = {"h": "Host", "d": "Device"}
_MEMORIES = {"pageable": "Pageable", "pinned": "Pinned"}
_SNAPSHOT_NS = 20_000_000
"""Readings that are closer than this belong together."""
_KERNEL = (
    "device",
    "stream",
    "correlation",
    "collective",
    "process_group",
    "group_size",
    "bytes",
    "detail",
)


def kernel_args(table: Table) -> Iterator[dict[str, object]]:
    """Yield the arguments of kernels."""
    for device, stream, correlation, collective, group, size, moved, detail in _merged.columns(
        table, *_KERNEL
    ):
        args: dict[str, object] = {"device": device, "stream": stream, "correlation": correlation}
        if collective:
            args["Collective name"] = collective
        if group:
            args["Process Group Name"] = group
        if size:
            args["Group size"] = size
        if moved:
            # The table holds bytes; written as elements of one byte they are read as such again.
            args |= {"In msg nelems": moved, "Out msg nelems": moved, "dtype": "Byte"}
        yield args | _merged.details(detail)


def copies(table: Table) -> tuple[list[str], list[str], list[dict[str, int]]]:
    """Return names, categories and arguments of copies and fills."""
    names, categories, args = [], [], []
    columns = _merged.columns(table, "kind", "memory", "device", "stream", "correlation", "bytes")
    for kind, memory, device, stream, correlation, moved in columns:
        names.append(_copy_name(kind, memory))
        categories.append("gpu_memset" if kind == "memset" else "gpu_memcpy")
        args.append({"device": device, "stream": stream, "correlation": correlation, "bytes": moved})
    return names, categories, args


def bottlenecks(samples: Table, below: float) -> Iterator[tuple[int, str, dict[str, float]]]:
    """Find readings of how busy a GPU is that are below a share in percent.

    Yields:
        Time in ns, node, and the values that were read there within 20 ms, by metric and device.
    """
    for node in dict.fromkeys(samples["node"].tolist()):
        own = samples.where(samples["node"] == node)
        times = own["time"]
        low = np.flatnonzero((own["metric"] == "gpu.util") & (own["value"] < below))
        for at in dict.fromkeys(times[low].tolist()):
            first, last = np.searchsorted(times, [at - _SNAPSHOT_NS, at + _SNAPSHOT_NS + 1])
            near = own.where(slice(int(first), int(last)))
            columns = _merged.columns(near, "metric", "device", "value")
            yield (
                at,
                node,
                {f"{metric} {device}".rstrip(): v for metric, device, v in columns if math.isfinite(v)},
            )


def _copy_name(kind: str, memory: str) -> str:
    """Return the name of a copy or fill in PyTorch's profiler."""
    if kind == "memset":
        return "Memset (Device)"
    ends = [_COPIES.get(kind[:1], "Device"), _COPIES.get(kind[-1:], "Device")]
    if kind == "p2p":
        return "Memcpy PtoP (Device -> Device)"
    shown = [_MEMORIES.get(memory, "Host") if end == "Host" else end for end in ends]
    return f"Memcpy {ends[0][0]}to{ends[1][0]} ({shown[0]} -> {shown[1]})"
