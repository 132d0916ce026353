"""TensorBoard's event files: framed records with checksums, each a protocol-buffer message.

Written by the public descriptions of TFRecord (length, its masked CRC-32C, data, its masked CRC-32C),
`event.proto` and `summary.proto`; no library is needed.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

from holter.schema.varint import varint

if TYPE_CHECKING:
    from collections.abc import Sequence

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""How a field of a message is coded."""
_MASK_DELTA = 0xA282EAD8


def _table() -> tuple[int, ...]:
    found = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        found.append(byte)
    return tuple(found)


_CRC = _table()


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked_crc(data: bytes) -> bytes:
    """Return the checksum as a record holds it: rotated, and moved by a constant."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF)


class EventFile:
    """Writes scalars and histograms to one file, in the order in which they are given."""

    def __init__(self, file: BinaryIO, wall_time: float) -> None:
        """Begin a file, opened to write bytes; `wall_time` is when it begins, seconds since the epoch."""
        self._file = file
        self._record(_double(1, wall_time) + _bytes(3, b"brain.Event:2"))

    def scalar(self, tag: str, step: int, wall_time: float, value: float) -> None:
        """Add one number; NaN and infinities are kept as they are."""
        self._summary(step, wall_time, _text(1, tag) + _float(2, value))

    def histogram(
        self,
        tag: str,
        step: int,
        wall_time: float,
        edges: Sequence[float],
        counts: Sequence[float],
        *,
        total: float,
        squares: float,
    ) -> None:
        """Add one histogram.

        Args:
            tag: Its name.
            step: Global step.
            wall_time: When it was, seconds since the epoch.
            edges: Limits of its bins, one more than there are bins, growing.
            counts: Elements in each bin.
            total: Sum of the elements.
            squares: Sum of their squares.
        """
        message = (
            _double(1, edges[0])
            + _double(2, edges[-1])
            + _double(3, float(sum(counts)))
            + _double(4, total)
            + _double(5, squares)
            + _bytes(6, struct.pack(f"<{len(counts)}d", *edges[1:]))
            + _bytes(7, struct.pack(f"<{len(counts)}d", *counts))
        )
        self._summary(step, wall_time, _text(1, tag) + _bytes(5, message))

    def _summary(self, step: int, wall_time: float, value: bytes) -> None:
        self._record(_double(1, wall_time) + _integer(2, step) + _bytes(5, _bytes(1, value)))

    def _record(self, data: bytes) -> None:
        length = struct.pack("<Q", len(data))
        self._file.write(length + masked_crc(length) + data + masked_crc(data))


def _key(field: int, kind: int) -> bytes:
    return varint(field << 3 | kind)


def _integer(field: int, number: int) -> bytes:
    return _key(field, _VARINT) + varint(number)


def _double(field: int, number: float) -> bytes:
    return _key(field, _FIXED64) + struct.pack("<d", number)


def _float(field: int, number: float) -> bytes:
    try:
        packed = struct.pack("<f", number)
    except OverflowError:  # beyond what 32 bits hold
        packed = struct.pack("<f", float("inf") if number > 0 else float("-inf"))
    return _key(field, _FIXED32) + packed


def _bytes(field: int, data: bytes) -> bytes:
    return _key(field, _BYTES) + varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode("utf-8", "replace"))
