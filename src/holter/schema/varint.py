"""Encodes varints of Protocol Buffers and Parquet: seven bits a byte, the lowest first."""

from __future__ import annotations

_ALL = (1 << 64) - 1
LONGEST = 10
"""Bytes of 64 bits."""


_SMALL = [bytes((number,)) for number in range(1 << 7)]
_SMALL += [bytes((number & 0x7F | 0x80, number >> 7)) for number in range(1 << 7, 1 << 14)]
_MORE = [bytes((number & 0x7F | 0x80, number >> 7 | 0x80)) for number in range(1 << 14)]
"""Two bytes of a number that goes on."""


class BadMessageError(ValueError):
    """The bytes are no message of Protocol Buffers."""


def varint(number: int) -> bytes:
    """Encode a whole number of at most 64 bits; a negative one as its complement."""
    if 0 <= number < 1 << 14:
        return _SMALL[number]
    number &= _ALL
    out = b""
    while number >= 1 << 14:
        out += _MORE[number & 0x3FFF]
        number >>= 14
    return out + _SMALL[number]


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, 0 to 2^64 - 1, and the place behind it.

    Raises:
        BadMessageError: The data, or the ten bytes that 64 bits take, end before the number does.
    """
    if at < len(data) and (byte := data[at]) < 0x80:
        return byte, at + 1
    number = shift = 0
    for place in range(at, min(at + LONGEST, len(data))):
        byte = data[place]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & _ALL, place + 1
        shift += 7
    raise BadMessageError("a number has no end")
