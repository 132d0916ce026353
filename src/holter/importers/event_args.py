"""Decode what trace events carry besides times and names: typed where tables have a column, else as text."""

from __future__ import annotations

import json
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from holter.importers.event_decoding import Event
    from holter.importers.trace import Trace


_ARGS = attrgetter("args")
_ENCODER = msgspec.json.Encoder()


class Details:
    """Keeps the fields of a type, all of which are not decoded (`Raw`), as one JSON object."""

    def __init__(self, type_: type[msgspec.Struct]) -> None:
        self._type = type_

    def read(self, trace: Trace, events: list[Event]) -> NDArray[np.int32]:
        """Return for each event the number of its text; that of the empty text where there is nothing."""
        args = decode_args(events, self._type)
        lines = _ENCODER.encode_lines(args).split(b"\n")
        if len(lines) != len(args) + 1:  # what is not decoded may hold line feeds itself
            lines = [*map(_ENCODER.encode, args), b""]
        return trace.staging.texts.codes(lines[:-1])


def decode_args(events: list[Event], type_: Any) -> list[Any]:
    """Decode what events carry, each into one object of a type whose fields all have defaults."""
    args: list[Any] = [*map(_ARGS, events)]
    if args and type(args[0]) is type_:  # events of one block and category are of one shape
        return args
    return _decoded(b"\n".join(args), events, type_)


def _decoded(joined: bytes, events: list[Event], type_: Any) -> list[Any]:
    decoder = _decoder(type_)
    try:
        decoded: list[Any] = decoder.decode_lines(joined)
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
        return msgspec.convert(json.loads(bytes(raw)), type_, strict=False)
    except (ValueError, RecursionError, OverflowError):
        return type_()


@cache
def _decoder(type_: Any) -> Any:
    return msgspec.json.Decoder(type_)
