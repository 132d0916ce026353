"""Decode what trace events carry besides times and names: typed where tables have a column, else as text."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.importers.trace import Trace
    from holter.importers.trace_events import Event


class Details:
    """Keeps the fields of a type that are not decoded (`Raw`) as one JSON object, each distinct one once."""

    def __init__(self, type_: Any) -> None:
        fields = [field for field in msgspec.structs.fields(type_) if field.type is Raw]
        self._keys = [field.encode_name for field in fields]
        self._raws = attrgetter(*(field.name for field in fields))

    def codes(self, trace: Trace, args: list[Any]) -> NDArray[np.int32]:
        """Return for each object the number of its text; that of the empty text where there is nothing."""
        texts = trace.staging.texts
        codes = np.full(len(args), texts[""], np.int32)
        known: dict[tuple[bytes, ...], int] = {}
        for row, raws in enumerate(map(self._raws, args)):
            if any(raws):
                key = tuple(map(bytes, raws))
                code = known.get(key)
                if code is None:
                    code = known[key] = texts[self._text(key)]
                codes[row] = code
        return codes

    def _text(self, values: tuple[bytes, ...]) -> str:
        pairs = (
            f'"{key}": {value.decode("utf-8", "replace")}'
            for key, value in zip(self._keys, values, strict=True)
            if value
        )
        return "{" + ", ".join(pairs) + "}"


def decode_args(events: list[Event], type_: Any) -> list[Any]:
    """Decode what events carry, each into one object of a type whose fields all have defaults."""
    decoder = _decoders(type_)
    raws = [event.args or b"{}" for event in events]
    try:
        decoded: list[Any] = decoder[1].decode(b"[" + b",".join(raws) + b"]")
    except (ValueError, RecursionError):
        decoded = [_args(decoder[0], raw, type_) for raw in raws]
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


_KNOWN: dict[Any, tuple[Any, Any]] = {}


def _decoders(type_: Any) -> tuple[Any, Any]:
    if type_ not in _KNOWN:
        _KNOWN[type_] = (msgspec.json.Decoder(type_), msgspec.json.Decoder(list[type_]))
    return _KNOWN[type_]
