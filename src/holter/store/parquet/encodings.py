"""Encodes columns for Parquet pages: numbers as plain values or deltas, texts with a dictionary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.varint import varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

PLAIN, RLE, DELTA, DICTIONARY = 0, 3, 5, 8
"""Parquet's numbers of encodings; DELTA is DELTA_BINARY_PACKED, DICTIONARY is RLE_DICTIONARY."""

_BLOCK, _PART = 8192, 32
"""Numbers that share one least difference, and those that share one width."""
_BYTES = np.array([1, *(1 << 8 * n for n in range(1, 8))], np.uint64)
"""From each of these on, a number takes one byte more."""


def zigzag(number: int) -> bytes:
    """Return a whole number of either sign, small ones short."""
    return varint(2 * number if number >= 0 else -2 * number - 1)


def texts(values: Sequence[str]) -> bytes:
    """Return texts in the plain encoding: each behind its length."""
    encoded = [value.encode() for value in values]
    return b"".join([part for text in encoded for part in (len(text).to_bytes(4, "little"), text)])


def indices(codes: NDArray[Any], most: int) -> bytes:
    """Return numbers of a list's values, up to `most`: one run if all are alike, else in whole bytes.

    Whole bytes are larger than bits, but they compress better.
    """
    rows = len(codes)
    if most == 0:
        return b"\0" + varint(rows << 1)
    size = 1 if most < 1 << 8 else 2 if most < 1 << 16 else 4
    groups = -(-rows // 8)
    packed = np.zeros(groups * 8, f"<u{size}")
    packed[:rows] = codes
    return bytes((8 * size,)) + varint(groups << 1 | 1) + packed.tobytes()


def levels(present: NDArray[np.bool_]) -> bytes:
    """Return which rows have a value, as a page of a nullable column begins with it."""
    if not present.any() or present.all():
        run = varint(len(present) << 1) + bytes((int(present[0]),))
    else:
        run = varint(-(-len(present) // 8) << 1 | 1) + np.packbits(present, bitorder="little").tobytes()
    return len(run).to_bytes(4, "little") + run


def differences(numbers: NDArray[Any]) -> bytes:
    """Return whole numbers as DELTA_BINARY_PACKED: differences of neighbors, in as few bytes as they need."""
    head = varint(_BLOCK) + varint(_BLOCK // _PART) + varint(len(numbers)) + zigzag(int(numbers[0]))
    # Differences wrap around in the numbers' own size, as the format says; above the least they are unsigned.
    deltas = numbers[1:] - numbers[:-1]
    unsigned = f"u{numbers.dtype.itemsize}"
    parts = [head]
    for at in range(0, len(deltas), _BLOCK):
        block = deltas[at : at + _BLOCK]
        least = block.min()
        above = np.zeros(_BLOCK, np.uint64)
        above[: len(block)] = (block - least).view(unsigned)
        parts += [zigzag(int(least)), *_packed(above.reshape(-1, _PART), -(-len(block) // _PART))]
    return b"".join(parts)


def _packed(parts: NDArray[np.uint64], used: int) -> tuple[bytes, bytes]:
    """Return the widths of parts in bits, and the numbers of those that are used, each part in its width.

    Widths are whole bytes, which need no shifts and compress better.
    """
    largest = np.bitwise_or.reduce(parts, axis=1)
    widths: NDArray[np.int64] = np.asarray(np.searchsorted(_BYTES, largest, "right"), np.int64)
    sizes = widths[:used] * _PART
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]), np.uint8)
    for width in np.unique(widths[:used]).tolist():
        if width:
            rows = np.flatnonzero(widths[:used] == width)
            cut = parts[rows].view(np.uint8).reshape(len(rows), _PART, 8)[:, :, :width]
            begins = (ends - sizes)[rows]
            out[begins[:, None] + np.arange(_PART * width)] = cut.reshape(len(rows), -1)
    return (widths * 8).astype(np.uint8).tobytes(), out.tobytes()
