"""The wire format of Protocol Buffers: encodes the fields of a message."""

from __future__ import annotations

import struct

from holter.schema.varint import varint

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""How a field is encoded; a field's key is its number and this."""


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
