"""Events of a trace in Chrome's format, and their arguments: typed where tables have a column, else text."""

from __future__ import annotations

import json
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.importers.trace import Trace


_ARGS = attrgetter("args")
_ENCODE = msgspec.json.Encoder().encode


class TraceEvent(msgspec.Struct, gc=False):
    """One event; `ts` and `dur` in microseconds, as some write them as text; `args` not decoded yet."""

    ph: str = ""
    cat: str | None = None
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float | str | None = None
    dur: int | float | str | None = None
    args: Raw = Raw(b"{}")
    id: int | str | None = None


def details(trace: Trace, args: list[Any]) -> NDArray[np.int32]:
    """Return for each of what events carry the number of its text, as JSON; without what is as by default."""
    # One by one: a text that is known already is gone before the next one is made.
    return np.fromiter(map(trace.staging.texts.__getitem__, map(_ENCODE, args)), np.int32, len(args))


def decode_args(events: list[TraceEvent], type_: Any) -> list[Any]:
    """Decode what events carry, each into one object of a type whose fields all have defaults."""
    decoder = _decoder(type_)
    try:
        decoded: list[Any] = decoder.decode_lines(b"\n".join(map(_ARGS, events)))
    except (ValueError, RecursionError):
        decoded = []
    if len(decoded) != len(events):
        decoded = [_args(decoder, event.args, type_) for event in events]
    return decoded


def _args(decoder: Any, raw: Any, type_: Any) -> Any:
    try:
        return decoder.decode(raw)
    except (ValueError, RecursionError):
        pass
    try:
        # Numbers may be written as text, and text as numbers.
        told = json.loads(bytes(raw))
        told.update((key, Raw(_ENCODE(told[key]))) for key in _undecoded(type_) & told.keys())
        return msgspec.convert(told, type_, strict=False)
    except (ValueError, RecursionError, OverflowError, AttributeError):
        return type_()


def mapping(raw: Raw | str) -> dict[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (ValueError, RecursionError):
        return {}


@cache
def _undecoded(type_: Any) -> frozenset[str]:
    """Return the names of what is kept as it is."""
    return frozenset(field.encode_name for field in msgspec.structs.fields(type_) if field.type is Raw)


@cache
def _decoder(type_: Any) -> Any:
    return msgspec.json.Decoder(type_)
