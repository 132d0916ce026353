"""Protocol Buffers' wire format, as much of it as a timeline needs: numbers, text and messages."""

from __future__ import annotations

import struct

from holter.schema.varint import varint


def number(field: int, value: int) -> bytes:
    """Encode a field of a whole number, of any type but the fixed ones and `sint`."""
    return varint(field << 3) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    """Encode a field of type fixed64."""
    return varint(field << 3 | 1) + struct.pack("<Q", value & 0xFFFF_FFFF_FFFF_FFFF)


def double(field: int, value: float) -> bytes:
    """Encode a field of type double."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def message(field: int, value: bytes) -> bytes:
    """Encode a field of bytes, or of another message that is encoded."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """Encode a field of text."""
    return message(field, value.encode("utf-8", "replace"))
