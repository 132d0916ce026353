"""Sums over tensors of the host, block by block, so that what is read several times stays in the cache.

Single precision is summed in short rows, and the rows in double. Magnitudes are compared as the whole numbers
that their bits are, which have the same order and are compared faster.
"""

from __future__ import annotations

import math
import struct
from typing import Any

BLOCK = 1 << 17
"""Elements of a block: two of them fit a cache of the second level, and calls are few."""
_DOUBLE = 1 << 16
"""Elements that are summed in double at once."""
_ROW = 256
"""Elements that are summed in single precision."""
_PLAIN = (1e-12, 1e15)
"""Largest magnitudes between which squares neither leave single precision nor vanish in it."""
_CANCELLED = 0.3
"""Below this ratio of a sum to the norm, single precision has lost too many of the sum's digits."""


class Blocks:
    """Passes over blocks with torch; keeps the room that they are worked on in."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._kept: dict[tuple[Any, int], Any] = {}

    def sums(self, flat: Any, tiny: float) -> tuple[Any, ...] | None:
        """Return smallest, largest, zeros, tiny elements, sums of magnitudes, elements, squares.

        Of single precision; None where its squares are not to be trusted, or an element is not finite.
        """
        torch = self._torch
        count = flat.numel()
        low, high = math.inf, -math.inf
        absolute = 0.0
        zeros = small = 0
        rows = count // _ROW
        totals, norms = self.room(torch.float32, rows, 1), self.room(torch.float32, rows, 2)
        room = self.room(torch.float32, min(count, BLOCK))
        bits = room.view(torch.int32)
        for begin in range(0, count, BLOCK):
            block = flat[begin : begin + BLOCK]
            length = block.numel()
            lowest, highest = float(block.amin()), int(block.view(torch.int32).amax())
            # Bits of negative numbers are negative, and in the wrong order.
            largest = _number(highest) if highest >= 0 else float(block.amax())
            low, high = min(low, lowest), max(high, largest)
            peak = max(-lowest, largest)
            if lowest != lowest or not (_PLAIN[0] < peak < _PLAIN[1] or peak == 0):
                return None
            magnitudes = room[:length]
            torch.abs(block, out=magnitudes)
            absolute += float(magnitudes.sum())
            if _number(int(bits[:length].amin())) <= tiny:
                more = self.near_zero(magnitudes, tiny)
                zeros, small = zeros + more[0], small + more[1]
            self._rows(block, begin // _ROW, totals, norms)
        squares, total = _squared(torch, norms), float(totals.sum(dtype=torch.float64))
        if rows * _ROW < count:
            rest = flat[rows * _ROW :].double()
            squares, total = squares + _squared(torch, rest), total + float(rest.sum())
        if abs(total) <= _CANCELLED * math.sqrt(squares):
            total = sum(float(one.sum(dtype=torch.float64)) for one in flat.split(_DOUBLE))
        return low, high, zeros, small, absolute, total, squares

    def change(self, new: Any, old: Any, *, keep: bool) -> tuple[float, float, float]:
        """Return l2, mean and largest absolute difference; `keep`: `old` is `new` afterwards."""
        torch = self._torch
        count = new.numel()
        squares = absolute = largest = 0.0
        single = new.dtype is torch.float32
        for begin in range(0, count, BLOCK):
            block, difference = new[begin : begin + BLOCK], old[begin : begin + BLOCK]
            # In the place of what was, which is not needed any more: one more room would not fit the cache.
            torch.sub(block, difference, out=difference)
            difference.abs_()
            most = _number(int(difference.view(torch.int32).amax())) if single else float(difference.amax())
            if single and _PLAIN[0] < most < _PLAIN[1]:
                rows = difference.numel() // _ROW
                norms = self.room(torch.float32, rows, 2)
                self._norms(difference[: rows * _ROW].view(-1, _ROW), norms)
                squares += _squared(torch, norms)
                if rows * _ROW < difference.numel():
                    squares += _squared(torch, difference[rows * _ROW :].double())
            elif most:
                squares += sum(_squared(torch, piece.double()) for piece in difference.split(_DOUBLE))
            absolute += float(difference.sum())
            largest = max(largest, most) if most == most else most
            if keep:
                difference.copy_(block)
        return math.sqrt(squares), absolute / count if count else 0.0, largest

    def near_zero(self, magnitudes: Any, tiny: float) -> tuple[int, int]:
        """Return how many elements are 0, and how many others are below `tiny`; overwrites them.

        Compared into the tensor's own type, which is several times faster than into booleans; sums of a
        block's ones are exact in single precision.
        """
        length = magnitudes.numel()
        room = self.room(magnitudes.dtype, length, 3)
        nonzero = int(self._torch.gt(magnitudes, 0, out=room).sum())
        return length - nonzero, nonzero - int(magnitudes.ge_(tiny).sum()) if tiny else 0

    def room(self, dtype: Any, size: int, which: int = 0) -> Any:
        """Return room for some elements, kept for the next time."""
        room = self._kept.get((dtype, which))
        if room is None or room.numel() < size:
            room = self._kept[dtype, which] = self._torch.empty(size, dtype=dtype, device="cpu")
        return room[:size]

    def _rows(self, block: Any, first: int, totals: Any, norms: Any) -> None:
        rows = block.numel() // _ROW
        if rows:
            table = block[: rows * _ROW].view(-1, _ROW)
            self._torch.sum(table, 1, out=totals[first : first + rows])
            self._norms(table, norms[first : first + rows])

    def _norms(self, table: Any, out: Any) -> None:
        self._torch.linalg.vector_norm(table, dim=1, out=out)


def _squared(torch: Any, row: Any) -> float:
    row = row.double()
    return float(torch.dot(row, row))


def _number(bits: int) -> float:
    """Return the number of single precision whose bits are those of a whole number."""
    return float(struct.unpack("=f", struct.pack("=i", bits))[0])
