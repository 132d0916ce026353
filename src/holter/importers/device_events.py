"""Rows of what a torch.profiler trace tells of accelerators: kernels, copies and fills, waits on streams."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw

from holter.importers.event_args import Details, decode_args
from holter.importers.kernel_kinds import collective, is_communication, moved_bytes
from holter.importers.trace import whole, whole_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.importers.trace import Trace
    from holter.importers.trace_events import Event

KERNELS = frozenset(("kernel", "concurrent_kernel", "mtia_ccp_events", "hpu_op"))
MEMORY = frozenset(("gpu_memcpy", "gpu_memset", "memcpy", "memset"))
ANNOTATIONS = frozenset(("gpu_user_annotation",))
SYNCS = frozenset(("cuda_sync", "xpu_sync"))

_ENDS = {
    "host": "h",
    "pageable": "h",
    "pinned": "h",
    "h": "h",
    "device": "d",
    "array": "d",
    "d": "d",
    "p": "p",
}
_ARROW = re.compile(r"(host|pageable|pinned|device|array)\w*\s*->\s*(host|pageable|pinned|device|array)")
_SHORT = re.compile(r"(?<![a-z])([hdp])\w*to_?([hdp])|(host|device)\w*_?to_?(host|device|peer)|(peer)")


class _Args(msgspec.Struct, gc=False):
    device: int | str | None = None
    stream: int | str | None = None
    correlation: int = 0
    bytes: int | float | None = None
    size: int | float | None = None
    direction: str | None = None
    collective: str | None = msgspec.field(default=None, name="Collective name")
    group: str | int | None = msgspec.field(default=None, name="Process Group Name")
    group_size: int = msgspec.field(default=0, name="Group size")
    sent: int | None = msgspec.field(default=None, name="In msg nelems")
    received: int | None = msgspec.field(default=None, name="Out msg nelems")
    dtype: str | None = None
    ranks: Raw = msgspec.field(default=Raw(), name="Process Group Ranks")
    grid: Raw = Raw()
    block: Raw = Raw()
    registers: Raw = msgspec.field(default=Raw(), name="registers per thread")
    shared: Raw = msgspec.field(default=Raw(), name="shared memory")
    blocks: Raw = msgspec.field(default=Raw(), name="blocks per SM")
    warps: Raw = msgspec.field(default=Raw(), name="warps per SM")
    occupancy: Raw = msgspec.field(default=Raw(), name="est. achieved occupancy %")
    priority: Raw = Raw()
    context: Raw = Raw()
    queued: Raw = Raw()


_DETAILS = Details(_Args)


def device_work(
    trace: Trace, events: list[Event], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in what ran on accelerators: kernels, copies and fills, told apart by category and name."""
    args = decode_args(events, _Args)
    names = [e.name or "" for e in events]
    copies = np.array(
        [
            (e.cat or "").lower() in MEMORY or name.startswith("dma_")
            for e, name in zip(events, names, strict=True)
        ]
    )
    for which, table in ((np.flatnonzero(~copies), "kernels"), (np.flatnonzero(copies), "memory_operations")):
        if not len(which):
            continue
        chosen = [args[row] for row in which]
        device, stream = _where(trace, [events[row] for row in which], chosen)
        columns: dict[str, NDArray[Any]] = {
            "time": time[which],
            "duration": duration[which],
            "device": device,
            "stream": stream,
            "correlation": whole_numbers([a.correlation for a in chosen], 0),
        }
        own = [names[row] for row in which]
        trace.append(table, **columns, **(_kernels if table == "kernels" else _copies)(trace, own, chosen))


def on_streams(
    trace: Trace, events: list[Event], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in what lies over streams: ranges of the user from first to last kernel, and waits of streams."""
    device, stream = _where(trace, events, decode_args(events, _Args))
    where = [
        f'{{"device": {d}, "stream": {s}}}' for d, s in zip(device.tolist(), stream.tolist(), strict=True)
    ]
    trace.append(
        "operators",
        time=time,
        duration=duration,
        thread=stream.astype(np.int64),
        name=trace.text([e.name or "" for e in events]),
        kind=trace.text(["device_wait" if e.cat in SYNCS else "device_annotation" for e in events]),
        detail=trace.text(where),
    )


def _kernels(trace: Trace, names: list[str], args: list[_Args]) -> dict[str, NDArray[Any]]:
    kinds, which, groups = [], [], []
    sizes = np.zeros(len(names), np.int64)
    for row, (name, a) in enumerate(zip(names, args, strict=True)):
        communicates = is_communication(name)
        kinds.append("communication" if communicates else "compute")
        told = collective(a.collective or name) if communicates else ""
        which.append(told)
        groups.append(str(a.group) if communicates and a.group is not None else "")
        if a.dtype is not None and communicates:
            sizes[row] = moved_bytes(told, a.sent, a.received, a.dtype)
    return {
        "name": trace.text(names),
        "kind": trace.text(kinds),
        "collective": trace.text(which),
        "process_group": trace.text(groups),
        "group_size": np.array([a.group_size for a in args]).clip(0, 2**31 - 1).astype(np.int32),
        "bytes": sizes,
        "detail": _DETAILS.codes(trace, args),
    }


def _copies(trace: Trace, names: list[str], args: list[_Args]) -> dict[str, NDArray[Any]]:
    kinds = [copy_kind(f"{name} {a.direction or ''}") for name, a in zip(names, args, strict=True)]
    moved = [a.bytes if a.bytes is not None else a.size or 0 for a in args]
    return {
        "kind": trace.text([kind for kind, _ in kinds]),
        "memory": trace.text([memory for _, memory in kinds]),
        "bytes": whole_numbers(moved, 0),
    }


@lru_cache(maxsize=4096)
def copy_kind(name: str) -> tuple[str, str]:
    """Return the kind of a copy or fill, and which memory of the host it used, out of what it is called.

    As in "Memcpy HtoD (Pageable -> Device)", "CopyDeviceToHost", "dma_request HOST_TO_DEVICE".
    """
    text = name.lower()
    memory = next((word for word in ("pageable", "pinned") if word in text), "")
    if "memset" in text or "fill" in text:
        return "memset", ""
    if found := _SHORT.search(text):
        parts = [part for part in found.groups() if part]
        if parts[0] == "peer" or "p" in (part[0] for part in parts):
            return "p2p", memory
        return f"{parts[0][0]}2{parts[1][0]}", memory
    if found := _ARROW.search(text):
        return f"{_ENDS[found[1]]}2{_ENDS[found[2]]}", memory
    return "d2d", memory


def _where(
    trace: Trace, events: list[Event], args: list[_Args]
) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
    """Return device and stream; -1 for a stream that the trace does not tell."""
    devices = whole_numbers(
        [e.pid if a.device is None else a.device for e, a in zip(events, args, strict=True)]
    )
    streams = whole_numbers(
        [a.stream if a.stream is not None else _stream(e) for e, a in zip(events, args, strict=True)]
    )
    device, stream = devices.clip(-1, 32767).astype(np.int16), streams.clip(-1, 2**31 - 1).astype(np.int32)
    for d, s in set(zip(device.tolist(), stream.tolist(), strict=True)):
        trace.stream(d, s)
    return device, stream


def _stream(event: Event) -> int | None:
    if (event.cat or "").startswith("mtia"):
        return None  # there a thread is a unit of the chip
    number = whole(event.tid)
    if number is None and isinstance(event.tid, str) and event.tid.startswith("stream "):
        number = whole(event.tid.removeprefix("stream "))
    return number
