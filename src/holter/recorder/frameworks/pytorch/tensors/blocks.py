"""Sums tensors of the host block by block, so that a block stays in the cache between reads.

Single precision is summed in short rows, and the rows are summed in double. Magnitudes are compared as
integers with the same bits, which have the same order and compare faster. A block is compared with its
earlier copy while it is in the cache.

The compiled `sums` does all this in one pass and in double, also for half precision.
"""

from __future__ import annotations

import array
import math
import struct
from itertools import repeat
from typing import TYPE_CHECKING, Any

from holter.recorder.native import sums as in_c

if TYPE_CHECKING:
    from collections.abc import Iterable

BLOCK = 1 << 18
"""Elements of a block: several blocks fit the last-level cache, and calls at 2 us each stay few."""
_DOUBLE = 1 << 16
"""Elements summed in double at once."""
_ROW = 256
"""Elements summed in single precision."""
_PLAIN = (1e-12, 1e15)
"""Range of largest magnitudes in which squares neither overflow nor vanish in single precision."""
_MAX_BUFFERS = 64
"""Sizes of buffers that are kept."""
_SINGLE = in_c.TYPES.index("float32")
_FEW_THREADS, _SHORT = 3, 1 << 17
"""Up to so many torch threads, or elements, one pass of one thread is faster than torch."""
_FAR, _FAR_IN_DOUBLE = 4.0, 1e6
"""Ratios of the squared mean to the variance from which on squares lose too many digits."""
_CANCELLED = 0.3
"""Ratio of a sum to the norm below which single precision has lost too many digits of the sum."""


class BlockReader:
    """Reads blocks with torch or compiled code; keeps buffers for intermediate results."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._norm = torch.linalg.vector_norm
        self._kept: dict[tuple[Any, int], Any] = {}
        self._buffers: dict[tuple[Any, int, int], Any] = {}
        self._types = {getattr(torch, name): number for number, name in enumerate(in_c.TYPES)}
        self._found = array.array("d", bytes(8 * len(in_c.FIELDS)))

    def read(self, flat: Any, tiny: float, before: Any = None) -> tuple[Sums | None, Change | None]:
        """Return sums over one row of floating-point numbers and, with `before`, the change; read them once.

        `tiny` is the smallest normal number, `before` the earlier copy, which is overwritten with `flat`. The
        sums are None if squares are inexact or an element is not finite; both are None for other types.
        """
        number = self._types.get(flat.dtype)
        few = flat.numel() <= _SHORT or self._torch.get_num_threads() <= _FEW_THREADS
        if number is not None and few and flat.is_contiguous() and not flat.is_neg():
            at_once = in_c.compiled()
            if at_once is not None:
                return self._read_at_once(at_once, flat, tiny, number, before)
        if number != _SINGLE:
            return None, None
        sums, change = Sums(), Change()
        sound = True
        olds: Iterable[Any] = repeat(None) if before is None else _split(before)
        for block, old in zip(_split(flat), olds, strict=False):
            sound = sound and self._sum(block, tiny, sums)
            if old is not None:
                self._compare(block, old, change, keep=True)
            elif not sound:
                break
        if not sound:
            return None, change
        if abs(sums.total) <= _CANCELLED * math.sqrt(sums.squares):
            sums.total = sum(float(one.sum(dtype=self._torch.float64)) for one in flat.split(_DOUBLE))
        return sums, change

    def _read_at_once(
        self, at_once: Any, flat: Any, tiny: float, number: int, before: Any
    ) -> tuple[Sums | None, Change]:
        found, change = self._found, Change()
        old = None if before is None else before.data_ptr()
        at_once(flat.data_ptr(), old, flat.numel(), tiny, number, found.buffer_info()[0])
        change.absolute, change.squares, change.largest = found[5:8]
        if change.absolute != change.absolute:
            change.largest = math.nan
        if found[10]:
            return None, change
        sums = Sums()
        sums.low, sums.high, sums.total, sums.squares, sums.absolute = found[:5]
        sums.zeros, sums.small, sums.far = int(found[8]), int(found[9]), _FAR_IN_DOUBLE
        return sums, change

    def change(self, new: Any, old: Any, *, keep: bool) -> Change:
        """Return the change. `old` is overwritten; with `keep`, it equals `new` afterwards."""
        change = Change()
        for block, before in zip(_split(new), _split(old), strict=True):
            self._compare(block, before, change, keep=keep)
        return change

    def _sum(self, block: Any, tiny: float, sums: Sums) -> bool:
        """Add a block; return False if the result would be inexact."""
        torch = self._torch
        low, bits = float(block.amin()), int(block.view(torch.int32).amax())
        # The bits of negative numbers are negative, and in reverse order.
        high = _number(bits) if bits >= 0 else float(block.amax())
        peak = max(-low, high)
        if low != low or not (_PLAIN[0] < peak < _PLAIN[1] or peak == 0):
            return False
        sums.low, sums.high = min(sums.low, low), max(sums.high, high)
        magnitudes = self.buffer(torch.float32, block.numel())
        torch.abs(block, out=magnitudes)
        sums.absolute += float(magnitudes.sum())
        if _number(int(magnitudes.view(torch.int32).amin())) <= tiny:
            zeros, small = self.near_zero(magnitudes, tiny)
            sums.zeros, sums.small = sums.zeros + zeros, sums.small + small
        rows, rest = _table(block)
        if rows is not None:
            sums.total += float(torch.sum(rows, 1).sum(dtype=torch.float64))
        if rest is not None:
            sums.total += float(rest.sum(dtype=torch.float64))
        sums.squares += self._squares(rows, rest)
        return True

    def _compare(self, block: Any, old: Any, change: Change, *, keep: bool) -> None:
        """Add the change of a block."""
        torch = self._torch
        # In place of the old values, which are no longer needed: another buffer would not fit the cache.
        difference = torch.sub(block, old, out=old).abs_()
        single = block.dtype is torch.float32
        most = _number(int(difference.view(torch.int32).amax())) if single else float(difference.amax())
        if single and _PLAIN[0] < most < _PLAIN[1]:
            change.squares += self._squares(*_table(difference))
        elif most:
            pieces = (piece.double() for piece in difference.split(_DOUBLE))
            change.squares += sum(float(torch.dot(piece, piece)) for piece in pieces)
        change.absolute += float(difference.sum())
        change.largest = max(change.largest, most) if most == most else most
        if keep:
            old.copy_(block)

    def _squares(self, rows: Any, rest: Any) -> float:
        """Return the sum of squares of the results of `_table`."""
        double = self._torch.float64
        found = float(self._norm(self._norm(rows, 2, 1), dtype=double)) ** 2 if rows is not None else 0.0
        return found + float(self._norm(rest, dtype=double)) ** 2 if rest is not None else found

    def near_zero(self, magnitudes: Any, tiny: float) -> tuple[int, int]:
        """Return the number of zeros, and of other elements below `tiny`; overwrites the magnitudes.

        Comparisons yield the tensor's own type, which is several times faster than booleans. Sums of the ones
        of a block are exact in single precision.
        """
        length = magnitudes.numel()
        buffer = self.buffer(magnitudes.dtype, length, 3)
        nonzero = int(self._torch.gt(magnitudes, 0, out=buffer).sum())
        return length - nonzero, nonzero - int(magnitudes.ge_(tiny).sum()) if tiny else 0

    def buffer(self, dtype: Any, size: int, which: int = 0) -> Any:
        """Return a buffer for some elements; buffers are kept."""
        buffer = self._buffers.get((dtype, size, which))
        if buffer is None:
            whole = self._kept.get((dtype, which))
            if whole is None or whole.numel() < size or len(self._buffers) > _MAX_BUFFERS:
                self._buffers.clear()
                whole = self._kept[dtype, which] = self._torch.empty(size, dtype=dtype, device="cpu")
            buffer = self._buffers[dtype, size, which] = whole[:size]
        return buffer


class Sums:
    """Sums over the elements of a tensor."""

    __slots__ = ("absolute", "far", "high", "low", "small", "squares", "total", "zeros")

    def __init__(self) -> None:
        self.far = _FAR
        self.low, self.high = math.inf, -math.inf
        self.zeros = self.small = 0
        self.absolute = self.total = self.squares = 0.0


class Change:
    """Differences to an earlier copy: sums of squares and of magnitudes, and the largest magnitude."""

    __slots__ = ("absolute", "largest", "squares")

    def __init__(self) -> None:
        self.squares = self.absolute = self.largest = 0.0

    def norms(self, count: int) -> tuple[float, float, float]:
        """Return the l2 norm, mean and largest absolute difference of `count` elements."""
        return math.sqrt(self.squares), self.absolute / count if count else 0.0, self.largest


def _split(flat: Any) -> Any:
    return flat.split(BLOCK) if flat.numel() > BLOCK else (flat,)


def _table(block: Any) -> tuple[Any, Any]:
    """Return a block as a table of short rows, and the remaining elements; None for an empty part."""
    count = block.numel()
    left = count % _ROW
    if not left:
        return block.view(-1, _ROW), None
    whole = count - left
    return block[:whole].view(-1, _ROW) if whole else None, block[whole:]


def _number(bits: int) -> float:
    """Return the single-precision number with the bits of an integer."""
    return float(struct.unpack("=f", struct.pack("=i", bits))[0])
