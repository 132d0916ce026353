"""Reads the events of accelerators in a trace of torch.profiler: kernels, copies, fills, waits on streams."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw

from holter.importers.kineto.event_args import decode_args, details
from holter.importers.kineto.host_events import operator_rows
from holter.importers.kineto.kernel_kinds import collective, is_communication, moved_bytes
from holter.importers.kineto.threads import whole
from holter.importers.trace import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from holter.importers.kineto.event_args import TraceEvent
    from holter.importers.trace import Trace

KERNELS = frozenset(("kernel", "concurrent_kernel", "mtia_ccp_events", "hpu_op"))
MEMORY = frozenset(("gpu_memcpy", "gpu_memset", "memcpy", "memset"))
ANNOTATIONS = frozenset(("gpu_user_annotation",))
SYNCS = frozenset(("cuda_sync", "xpu_sync"))

_ENDS = {**dict.fromkeys(("host", "pageable", "pinned"), "h"), **dict.fromkeys(("device", "array"), "d")}
_ARROW = re.compile(r"(host|pageable|pinned|device|array)\w*\s*->\s*(host|pageable|pinned|device|array)")
_SHORT = re.compile(
    r"(?<![a-z])([hdp])\w*to_?([hdp])|(host|device)\w*_?to_?(host|device|peer)|([hdp])2([hdp])|(peer)"
)


class WorkArgs(msgspec.Struct, gc=False, omit_defaults=True):
    """What tables have columns for."""

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


class KernelArgs(WorkArgs, gc=False, omit_defaults=True):
    """Besides, kept as it is: how a kernel was launched, and who takes part in a collective."""

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


class _WaitArgs(msgspec.Struct, gc=False, omit_defaults=True):
    """Which calls a wait belongs to: the one that waits, and the record of the event that it waits for."""

    correlation: int | None = None
    stream: int | None = msgspec.field(default=None, name="wait_on_stream")
    record: int | None = msgspec.field(default=None, name="wait_on_cuda_event_record_corr_id")


_ENCODE = msgspec.json.Encoder().encode
_NO_ARGS = WorkArgs()


def device_work(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in what ran on accelerators: kernels, copies and fills, by category and name."""
    if (events[0].cat or "").lower() in MEMORY:
        _take(trace, "memory_operations", events, time, duration)
        return
    copied = np.array([(e.name or "").startswith("dma_") for e in events])
    for table, rows in (("kernels", np.flatnonzero(~copied)), ("memory_operations", np.flatnonzero(copied))):
        if len(rows):
            _take(trace, table, [events[row] for row in rows.tolist()], time[rows], duration[rows])


def _take(
    trace: Trace, table: str, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    copied = table == "memory_operations"
    args = decode_args(events, WorkArgs if copied else KernelArgs)
    device, stream = _where(trace, events, args)
    correlation = whole_numbers([a.correlation for a in args], 0)
    names = [e.name or "" for e in events]
    if copied:
        moved = whole_numbers([a.size or 0 if a.bytes is None else a.bytes for a in args], 0)
        kinds = [f"{name} {a.direction or ''}" for name, a in zip(names, args, strict=True)]
        columns = copies(trace, kinds, moved)
    else:
        columns = kernels(trace, names, args)
        for a in args:  # what has a column is no detail
            a.device = a.stream = a.bytes = a.size = a.direction = None
            a.collective = a.group = a.sent = a.received = a.dtype = None
            a.correlation = a.group_size = 0
        columns["detail"] = details(trace, args)
    trace.append(
        table,
        time=time,
        duration=duration,
        device=device,
        stream=stream,
        correlation=correlation,
        **columns,
    )


def on_streams(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in what lies over streams: ranges of the user from first to last kernel, and waits of streams."""
    device, stream = _where(trace, events, decode_args(events, WorkArgs))
    where = list(zip(device.tolist(), stream.tolist(), strict=True))
    waits = decode_args(events, _WaitArgs) if events[0].cat in SYNCS else [_WaitArgs()] * len(events)
    details = [
        b'{"device": %d, "stream": %d%s'
        % (d, s, b"," + text if (text := _ENCODE(wait)[1:]) != b"}" else text)
        for (d, s), wait in zip(where, waits, strict=True)
    ]
    name = trace.text([e.name or "" for e in events])
    kind = trace.text(["device_wait" if e.cat in SYNCS else "device_annotation" for e in events])
    operator_rows(trace, name, stream.astype(np.int64), time, duration, kind, trace.text(details))


def kernels(trace: Trace, names: list[str], args: Sequence[WorkArgs] = ()) -> dict[str, NDArray[Any]]:
    """Return what names, and the arguments if they are known, say of kernels; no details."""
    columns = computing(trace, trace.text(names))
    communicating = {name for name in set(names) if is_communication(name)}
    texts = trace.staging.texts
    for row in [row for row, name in enumerate(names) if name in communicating]:
        a = args[row] if args else _NO_ARGS
        which = collective(a.collective or names[row])
        columns["kind"][row] = texts["communication"]
        columns["collective"][row] = texts[which]
        columns["process_group"][row] = texts["" if a.group is None else str(a.group)]
        columns["group_size"][row] = min(max(a.group_size, 0), 2**31 - 1)
        columns["bytes"][row] = moved_bytes(which, a.sent, a.received, a.dtype)
    return columns


def computing(trace: Trace, names: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
    """Return the columns of kernels that compute, by the numbers of their names; no details."""
    rows = len(names)
    return {
        "name": names,
        "kind": trace.same("compute", rows),
        "collective": trace.same("", rows),
        "process_group": trace.same("", rows),
        "group_size": np.zeros(rows, np.int32),
        "bytes": np.zeros(rows, np.int64),
    }


def copies(trace: Trace, names: list[str], moved: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return what names say of copies and fills, and the bytes that they move."""
    kind, memory = zip(*map(copy_kind, names), strict=True)
    return {"kind": trace.text(kind), "memory": trace.text(memory), "bytes": moved}


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
    trace: Trace, events: list[TraceEvent], args: Sequence[WorkArgs]
) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
    """Return device and stream; -1 for an unknown stream."""
    told_devices, told_streams = [a.device for a in args], [a.stream for a in args]
    if None in told_devices:
        told_devices = [e.pid if d is None else d for e, d in zip(events, told_devices, strict=True)]
    if None in told_streams:
        told_streams = [_stream(e) if s is None else s for e, s in zip(events, told_streams, strict=True)]
    return placed(trace, whole_numbers(told_devices), whole_numbers(told_streams))


def placed(
    trace: Trace, devices: NDArray[np.int64], streams: NDArray[np.int64]
) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
    """Return devices and streams as columns, and take in which there are."""
    device, stream = devices.clip(-1, 32767).astype(np.int16), streams.clip(-1, 2**31 - 1).astype(np.int32)
    for both in np.unique(device.astype(np.int64) << 32 | stream.astype(np.int64) + 1).tolist():
        trace.stream(both >> 32, (both & 0xFFFFFFFF) - 1)
    return device, stream


def _stream(event: TraceEvent) -> int | None:
    if (event.cat or "").startswith("mtia"):
        return None  # there a thread is a unit of the chip
    number = whole(event.tid)
    if number is None and isinstance(event.tid, str) and event.tid.startswith("stream "):
        number = whole(event.tid.removeprefix("stream "))
    return number
