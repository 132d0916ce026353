"""Types of events by their category, each with the fields that its rows need: decoded in one pass."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Raw

from holter.importers.kineto import device_events, host_events, marks
from holter.importers.kineto.events import TraceEvent

_ALLOCATIONS = "cpu_instant_event"
"""Marks of PyTorch's allocator, and in some traces others."""
_NAME = str | None
_WHO = int | str | None
_TIME = int | float | str | None
_SLICE: list[Any] = [
    ("ph", Literal["X"]),
    ("name", _NAME, None),
    ("pid", _WHO, None),
    ("tid", _WHO, None),
    ("ts", _TIME, None),
    ("dur", _TIME, None),
]


@lru_cache(maxsize=1024)
def shape(category: str) -> type[msgspec.Struct]:
    """Return the type of a category's events: whole ones, unless it is known what is needed of them."""
    lower = category.lower()
    kind: str | None = "X"
    args: list[Any] = []
    if lower in host_events.OPERATORS:
        args = [_args(host_events.OperatorArgs)]
    elif lower.endswith(("_runtime", "_driver")) or lower == "runtime":
        args = [_args(host_events.RuntimeArgs)]
    elif lower in device_events.KERNELS:
        args = [_args(device_events.KernelArgs)]
    elif lower in device_events.MEMORY:
        args = [_args(device_events.WorkArgs)]
    elif lower not in host_events.ANNOTATIONS | host_events.PYTHON:
        kind = None
    fields = [*_SLICE, *args]
    if lower == _ALLOCATIONS:
        named = ("name", Literal["[memory]"])
        kind, fields = "i", [("ph", Literal["i"]), named, *_SLICE[2:5], _args(marks.MemoryArgs)]
    elif lower in marks.LAUNCH_FLOWS:
        kind, fields = "s", [("ph", Literal["s", "t", "f"])]
    elif kind is None:
        fields = [("ph", str, ""), *_SLICE[1:], ("args", Raw, Raw(b"{}")), ("id", _WHO, None)]
    return msgspec.defstruct(
        TraceEvent.__name__,
        fields,
        tag_field="cat",
        tag=category,
        namespace={"cat": category, "kind": kind},
        gc=False,
    )


def _args(type_: type[msgspec.Struct]) -> Any:
    return ("args", type_, msgspec.field(default_factory=type_))
