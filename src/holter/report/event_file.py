"""TensorBoard's event files: framed records with checksums, each a protocol-buffer message.

Written by the public descriptions of TFRecord (length, its masked CRC-32C, data, its masked CRC-32C),
`event.proto` and `summary.proto`; no library is needed.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

from holter.schema.protobuf import bytes_field, double_field, float_field, number_field, text_field

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        self._record(double_field(1, wall_time) + bytes_field(3, b"brain.Event:2"))

    def scalar(self, tag: str, step: int, wall_time: float, value: float) -> None:
        """Add one number; NaN and infinities are kept as they are."""
        self._summary(step, wall_time, text_field(1, tag) + float_field(2, value))

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
        """Add one histogram: edges of bins, elements of each bin, the sum and the squares' sum of values."""
        message = (
            double_field(1, edges[0])
            + double_field(2, edges[-1])
            + double_field(3, float(sum(counts)))
            + double_field(4, total)
            + double_field(5, squares)
            + bytes_field(6, struct.pack(f"<{len(counts)}d", *edges[1:]))
            + bytes_field(7, struct.pack(f"<{len(counts)}d", *counts))
        )
        self._summary(step, wall_time, text_field(1, tag) + bytes_field(5, message))

    def _summary(self, step: int, wall_time: float, value: bytes) -> None:
        self._record(
            double_field(1, wall_time) + number_field(2, step) + bytes_field(5, bytes_field(1, value))
        )

    def _record(self, data: bytes) -> None:
        length = struct.pack("<Q", len(data))
        self._file.write(length + masked_crc(length) + data + masked_crc(data))
