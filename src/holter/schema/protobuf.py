"""The wire format of Protocol Buffers: encodes and reads the fields of a message, without its definition."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from holter.schema.varint import BadMessageError, read_varint, varint

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""How a field is encoded; a field's key is its number and this."""
_FIXED = {FIXED64: 8, FIXED32: 4}
"""Bytes of a field of fixed length."""

Value = int | memoryview
"""What `fields` yields: an unsigned whole number, or the bytes of a field of another kind."""


def fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield the number and the value of each field of a message; copies nothing.

    Raises:
        BadMessageError: The message is damaged.
    """
    at, end = 0, len(data)
    while at < end:
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == VARINT:
            number, at = read_varint(data, at)
            yield key >> 3, number
            continue
        if kind == BYTES:
            length, at = read_varint(data, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise BadMessageError(f"a field is coded as {kind}")
        if length > end - at:
            raise BadMessageError("a field reaches beyond its message")
        yield key >> 3, data[at : at + length]
        at += length


def signed(value: Value) -> int:
    """Return the number of a field; 0 for a field of another kind."""
    if not isinstance(value, int):
        return 0
    return value - (1 << 64) if value >= 1 << 63 else value


def content(value: Value) -> memoryview:
    """Return the bytes of a field; no bytes for a number."""
    return memoryview(b"") if isinstance(value, int) else value


def text(value: Value) -> str:
    """Return the text of a field."""
    return bytes(content(value)).decode("utf-8", "replace")


def number_field(field: int, value: int) -> bytes:
    """Encode a whole number of any type but the fixed ones and `sint`."""
    return _key(field, VARINT) + varint(value)


def fixed64_field(field: int, value: int) -> bytes:
    """Encode a number of type fixed64."""
    return _key(field, FIXED64) + struct.pack("<Q", value & 0xFFFF_FFFF_FFFF_FFFF)


def double_field(field: int, value: float) -> bytes:
    """Encode a number of type double."""
    return _key(field, FIXED64) + struct.pack("<d", value)


def float_field(field: int, value: float) -> bytes:
    """Encode a number of type float; one beyond its range becomes infinite."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return _key(field, FIXED32) + packed


def bytes_field(field: int, value: bytes) -> bytes:
    """Encode bytes, or another message that is encoded already."""
    return _key(field, BYTES) + varint(len(value)) + value


def text_field(field: int, value: str) -> bytes:
    """Encode text."""
    return bytes_field(field, value.encode("utf-8", "replace"))


def _key(field: int, kind: int) -> bytes:
    return varint(field << 3 | kind)
