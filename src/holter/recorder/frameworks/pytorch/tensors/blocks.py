"""Sums tensors of the host block by block, so that blocks stay in the cache between reads.

Single precision is summed in short rows, and the rows in double. Magnitudes are compared as the whole numbers
that their bits are, which have the same order and are compared faster. Where what a tensor was is known, each
block is compared with it while it is in the cache.

Where `sums` was compiled, it does all this in one pass, and in double, also for half precision.
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
"""Elements of a block: some fit a cache of the last level, and calls, which cost 2 us each, are few."""
_DOUBLE = 1 << 16
"""Elements that are summed in double at once."""
_ROW = 256
"""Elements that are summed in single precision."""
_PLAIN = (1e-12, 1e15)
"""Largest magnitudes between which squares neither leave single precision nor vanish in it."""
_ROOMS = 64
"""Sizes of rooms that are remembered."""
_SINGLE = in_c.TYPES.index("float32")
_FEW_THREADS, _SHORT = 3, 1 << 17
"""Up to so many threads of torch, or elements, one thread that reads once is faster than they are."""
_FAR, _FAR_IN_DOUBLE = 4.0, 1e6
"""Squares lose too many digits from this ratio on of the mean's square to the variance."""
_CANCELLED = 0.3
"""Below this ratio of a sum to the norm, single precision has lost too many of the sum's digits."""


class BlockReader:
    """Passes over blocks with torch; keeps the room that they are worked on in."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._norm = torch.linalg.vector_norm
        self._kept: dict[tuple[Any, int], Any] = {}
        self._rooms: dict[tuple[Any, int, int], Any] = {}
        self._types = {getattr(torch, name): number for number, name in enumerate(in_c.TYPES)}
        self._found = array.array("d", bytes(8 * len(in_c.FIELDS)))

    def read(self, flat: Any, tiny: float, before: Any = None) -> tuple[Sums | None, Change | None]:
        """Return sums over floating-point numbers and, if `before` is given, the change since; reads it once.

        Args:
            flat: The elements, in one row.
            tiny: The smallest normal number.
            before: What they were; is `flat` afterwards.

        The sums are None where squares are not to be trusted, or an element is not finite; both are for types
        that this is not for.
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
        """Return the change; `old` is overwritten, `keep`: it is `new` afterwards."""
        change = Change()
        for block, before in zip(_split(new), _split(old), strict=True):
            self._compare(block, before, change, keep=keep)
        return change

    def _sum(self, block: Any, tiny: float, sums: Sums) -> bool:
        """Add a block; False where that would be wrong."""
        torch = self._torch
        low, bits = float(block.amin()), int(block.view(torch.int32).amax())
        # Bits of negative numbers are negative, and in the wrong order.
        high = _number(bits) if bits >= 0 else float(block.amax())
        peak = max(-low, high)
        if low != low or not (_PLAIN[0] < peak < _PLAIN[1] or peak == 0):
            return False
        sums.low, sums.high = min(sums.low, low), max(sums.high, high)
        magnitudes = self.room(torch.float32, block.numel())
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
        # In the place of what was, which is not needed any more: one more room would not fit the cache.
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
        """Return the sum of squares of what `_table` made."""
        double = self._torch.float64
        found = float(self._norm(self._norm(rows, 2, 1), dtype=double)) ** 2 if rows is not None else 0.0
        return found + float(self._norm(rest, dtype=double)) ** 2 if rest is not None else found

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
        room = self._rooms.get((dtype, size, which))
        if room is None:
            whole = self._kept.get((dtype, which))
            if whole is None or whole.numel() < size or len(self._rooms) > _ROOMS:
                self._rooms.clear()
                whole = self._kept[dtype, which] = self._torch.empty(size, dtype=dtype, device="cpu")
            room = self._rooms[dtype, size, which] = whole[:size]
        return room


class Sums:
    """What `Blocks.read` found."""

    __slots__ = ("absolute", "far", "high", "low", "small", "squares", "total", "zeros")

    def __init__(self) -> None:
        self.far = _FAR
        self.low, self.high = math.inf, -math.inf
        self.zeros = self.small = 0
        self.absolute = self.total = self.squares = 0.0


class Change:
    """How far elements are from what they were: sums of squares and of magnitudes, the largest magnitude."""

    __slots__ = ("absolute", "largest", "squares")

    def __init__(self) -> None:
        self.squares = self.absolute = self.largest = 0.0

    def told(self, count: int) -> tuple[float, float, float]:
        """Return l2, mean and largest absolute difference of so many elements."""
        return math.sqrt(self.squares), self.absolute / count if count else 0.0, self.largest


def _split(flat: Any) -> Any:
    return flat.split(BLOCK) if flat.numel() > BLOCK else (flat,)


def _table(block: Any) -> tuple[Any, Any]:
    """Return a block as a table of short rows, and what is left over; None for what is not there."""
    count = block.numel()
    left = count % _ROW
    if not left:
        return block.view(-1, _ROW), None
    whole = count - left
    return block[:whole].view(-1, _ROW) if whole else None, block[whole:]


def _number(bits: int) -> float:
    """Return the number of single precision whose bits are those of a whole number."""
    return float(struct.unpack("=f", struct.pack("=i", bits))[0])
