"""Protocol Buffers' wire format, as much of it as a timeline needs: numbers, text and messages."""

from __future__ import annotations

import struct


def _plain(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [_plain(value) for value in range(1 << 14)]
_MORE = [bytes([value & 0x7F | 0x80, value >> 7 | 0x80]) for value in range(1 << 14)]
"""Two bytes of a number that goes on."""


def varint(value: int) -> bytes:
    """Encode a whole number; negative ones as 64 bits in two's complement."""
    if 0 <= value < 1 << 14:
        return _SMALL[value]
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = b""
    while value >= 1 << 14:
        out += _MORE[value & 0x3FFF]
        value >>= 14
    return out + _SMALL[value]


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
