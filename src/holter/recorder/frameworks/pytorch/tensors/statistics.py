"""All statistics of one tensor of the host in as few passes as possible.

Counts and extremes are exact. Sums run in blocks that stay in the cache: absolute values in the tensor's own
precision (all of one sign, so nothing cancels), the sum itself in double. Squares of single precision are
summed in short rows, and the rows in double; where the mean lies so far from 0, or the elements so near to
the ends of the range, that this would lose digits, deviations from the mean are summed in double instead.
Half precision is widened first. Quantiles are exact for up to `EXACT` elements, beyond that those of `SAMPLE`
evenly spaced ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

BLOCK = 1 << 18
"""Elements of a block: small enough for a cache, large enough that calls are few."""
EXACT = 4096
SAMPLE = 512
_ROW = 256
"""Elements whose squares are summed in single precision."""
_PLAIN = (1e-12, 1e15)
"""Largest magnitudes between which squares neither leave single precision nor vanish in it."""
_CANCELLED = 0.3
"""Below this ratio of a sum to the norm, single precision has lost too many of the sum's digits."""
_FAR = 4.0
"""Squares lose too many digits from this ratio on of the mean's square to the variance."""
_WIDE = 1e30
"""From this magnitude on, sums are made in double."""
_NAN = float("nan")
QUANTILES = (0.05, 0.5, 0.95)
SLAB = 1 << 26
"""Elements summarized at once; of larger tensors the pieces are joined."""


@dataclass(slots=True)
class Summary:
    """Statistics over the finite elements; counts as `tensor_spool.COUNTS`, the rest as `STATISTICS`."""

    counts: tuple[int, int, int, int, int, int]
    statistics: tuple[float, ...]


EMPTY = (_NAN,) * 8


class Statistics:
    """Statistics with torch; keeps the room that blocks are worked on in."""

    def __init__(self, torch: Any, *, slab: int = SLAB) -> None:
        self._torch = torch
        self._size = slab
        self._room: dict[tuple[Any, int], Any] = {}
        self._places: dict[int, tuple[Any, list[float]]] = {}

    def of(self, tensor: Any, *, quantiles: bool = True) -> Summary:
        """Summarize a tensor of the host, of any type and layout of memory. Takes no gradient."""
        tensor = tensor.detach()
        count = tensor.numel()
        if count == 0:
            return Summary((0, 0, 0, 0, 0, 0), EMPTY)
        tiny = smallest_normal(self._torch, tensor.dtype)
        if count <= self._size:
            found = self._slab(self.flat(tensor), tiny, quantiles=quantiles)
            found.counts = (count, *found.counts[1:])  # of complex numbers, both parts were counted
            return found
        # What must be widened first is widened piece by piece.
        row = tensor.reshape(-1)
        pieces = (self.flat(row[begin : begin + self._size]) for begin in range(0, count, self._size))
        found = reduce(joined, (self._slab(piece, tiny, quantiles=False) for piece in pieces))
        if quantiles:
            sample = self.flat(row[:: (count // SAMPLE) | 1])
            found.statistics = (*found.statistics[:5], *self._quantiles(sample[self._torch.isfinite(sample)]))
        return found

    def _slab(self, flat: Any, tiny: float, *, quantiles: bool) -> Summary:
        torch = self._torch
        count = flat.numel()
        if count > EXACT and flat.dtype is torch.float32:
            found = self._plain(flat, tiny)
            if found is not None:
                if quantiles:
                    found.statistics = (*found.statistics[:5], *self._quantiles(flat))
                return found
        low, high = (float(one) for one in torch.aminmax(flat))
        bad = (0, 0, 0)
        if not (math.isfinite(low) and math.isfinite(high)):
            bad = tuple(int(found.sum()) for found in not_finite(torch, flat))  # type: ignore[assignment]
            flat = flat[torch.isfinite(flat)]
            if flat.numel() == 0:
                return Summary((count, *bad, 0, 0), EMPTY)
            low, high = (float(one) for one in torch.aminmax(flat))
        if max(-low, high) > _WIDE:
            flat = flat.double()
        zeros, small, absolute, mean, variance = self._moments(flat, tiny, low, high)
        std = math.sqrt(max(variance, 0.0)) if low != high else 0.0
        around = self._quantiles(flat) if quantiles else (_NAN,) * 3
        return Summary((count, *bad, zeros, small), (low, high, mean, std, absolute, *around))

    def _plain(self, flat: Any, tiny: float) -> Summary | None:
        """Summarize single precision the short way; None where that would be wrong."""
        torch = self._torch
        count = flat.numel()
        low, high = math.inf, -math.inf
        absolute = total = squares = 0.0
        zeros = small = 0
        room = self._scratch(flat.dtype, min(count, BLOCK))
        for begin in range(0, count, BLOCK):
            block = flat[begin : begin + BLOCK]
            length = block.numel()
            lowest, highest = float(block.amin()), float(block.amax())
            low, high = min(low, lowest), max(high, highest)
            peak = max(-lowest, highest)
            if lowest != lowest or not (_PLAIN[0] < peak < _PLAIN[1] or peak == 0):
                return None
            a = room[:length]
            torch.abs(block, out=a)
            absolute += float(a.sum())
            if float(a.amin()) <= tiny:
                more = self._near_zero(a, tiny)
                zeros, small = zeros + more[0], small + more[1]
            square = self._squares(block)
            squares += square
            total += self._sum(block, math.sqrt(square))
        mean = total / count
        variance = squares / count - mean * mean
        if mean * mean > _FAR * variance:
            return None
        statistics = (low, high, mean, math.sqrt(variance), absolute / count, _NAN, _NAN, _NAN)
        return Summary((count, 0, 0, 0, zeros, small), statistics)

    def _sum(self, block: Any, norm: float) -> float:
        """Return the sum of single precision; in double where that of short rows is not exact enough."""
        whole = block.numel() // _ROW * _ROW
        total = float(block[:whole].view(-1, _ROW).sum(1).sum(dtype=self._torch.float64))
        total += float(block[whole:].sum(dtype=self._torch.float64)) if whole < block.numel() else 0.0
        return total if abs(total) > _CANCELLED * norm else float(block.sum(dtype=self._torch.float64))

    def _squares(self, block: Any) -> float:
        """Return the sum of squares of single precision."""
        torch = self._torch
        whole = block.numel() // _ROW * _ROW
        norms = torch.linalg.vector_norm(block[:whole].view(-1, _ROW), dim=1).double()
        squares = float(torch.dot(norms, norms))
        if whole < block.numel():
            rest = block[whole:].double()
            squares += float(torch.dot(rest, rest))
        return squares

    def _near_zero(self, magnitudes: Any, tiny: float) -> tuple[int, int]:
        """Return how many elements are 0, and how many others are below `tiny`; overwrites them.

        Compared into the tensor's own type, which is several times faster than into booleans; sums of a
        block's ones are exact in single precision.
        """
        length = magnitudes.numel()
        room = self._scratch(magnitudes.dtype, length, 1)
        nonzero = int(self._torch.gt(magnitudes, 0, out=room).sum())
        return length - nonzero, nonzero - int(magnitudes.ge_(tiny).sum()) if tiny else 0

    def _moments(
        self, flat: Any, tiny: float, low: float, high: float
    ) -> tuple[int, int, float, float, float]:
        """Return zeros, tiny elements, mean of absolute values, mean and variance of finite elements."""
        torch = self._torch
        count = flat.numel()
        size = min(count, BLOCK)
        deviations = self._scratch(torch.float64, size)
        magnitudes = self._scratch(flat.dtype, size)
        shift = None
        absolute = first = second = 0.0
        zeros = small = 0
        for begin in range(0, count, BLOCK):
            block = flat[begin : begin + BLOCK]
            length = block.numel()
            a, d = magnitudes[:length], deviations[:length]
            torch.abs(block, out=a)
            absolute += float(a.sum())
            if float(a.amin()) <= tiny:
                more = self._near_zero(a, tiny)
                zeros, small = zeros + more[0], small + more[1]
            d.copy_(block)
            total = float(d.sum())
            if shift is None:
                # Far from 0, squares would lose what sets the elements apart.
                shift = total / length if abs(total / length) > high - low else 0.0
            if shift:
                d.sub_(shift)
                total = float(d.sum())
            first += total
            second += float(torch.dot(d, d))
        offset = first / count
        return zeros, small, absolute / count, (shift or 0.0) + offset, second / count - offset * offset

    def change(self, tensor: Any, before: Any) -> tuple[float, float, float]:
        """Return l2, mean and largest absolute difference of two tensors of the host.

        `before` is overwritten with `tensor`: it is what the next one is compared with.
        """
        torch = self._torch
        new, old = self.flat(tensor), self.flat(before)
        count = new.numel()
        shared = count > 0 and old.data_ptr() == before.data_ptr()
        room = self._scratch(new.dtype, min(count, BLOCK))
        squares = absolute = largest = 0.0
        for begin in range(0, count, BLOCK):
            block, was = new[begin : begin + BLOCK], old[begin : begin + BLOCK]
            difference = room[: block.numel()]
            torch.sub(block, was, out=difference)
            if shared:
                was.copy_(block)
            difference.abs_()
            most = float(difference.amax())
            if new.dtype is torch.float32 and _PLAIN[0] < most < _PLAIN[1]:
                squares += self._squares(difference)
            else:
                squares += float(difference.double().square().sum())
            absolute += float(difference.sum())
            largest = max(largest, most) if most == most else most
        if not shared:
            before.copy_(tensor)
        return math.sqrt(squares), absolute / count if count else 0.0, largest

    def _quantiles(self, flat: Any) -> tuple[float, ...]:
        torch = self._torch
        count = flat.numel()
        if count > EXACT:
            flat = flat[:: (count // SAMPLE) | 1]  # odd, so that it meets every channel
        ordered = torch.sort(flat).values
        length = ordered.numel()
        if length not in self._places:
            self._places[length] = self._places_of_quantiles(length)
        around, shares = self._places[length]
        values = ordered[around].tolist()
        return tuple(
            low + (high - low) * share
            for share, low, high in zip(shares, values[::2], values[1::2], strict=True)
        )

    def _places_of_quantiles(self, length: int) -> tuple[Any, list[float]]:
        """Return which of ordered elements quantiles lie between, and where between them."""
        last = length - 1
        places = [quantile * last for quantile in QUANTILES]
        around = [index for place in places for index in (int(place), min(int(place) + 1, last))]
        return self._torch.tensor(around, device="cpu"), [place - int(place) for place in places]

    def flat(self, tensor: Any) -> Any:
        """Return the elements in one row: float32 or float64; of complex numbers both parts."""
        torch = self._torch
        tensor = tensor.detach()
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        if tensor.dtype not in (torch.float32, torch.float64):
            tensor = tensor.to(
                torch.float32 if tensor.is_floating_point() or tensor.dtype is torch.bool else torch.float64
            )
        return tensor.reshape(-1)

    def _scratch(self, dtype: Any, size: int, which: int = 0) -> Any:
        """Return room for a block, kept for the next one."""
        room = self._room.get((dtype, which))
        if room is None or room.numel() < size:
            room = self._room[dtype, which] = self._torch.empty(size, dtype=dtype, device="cpu")
        return room[:size]


def joined(one: Summary, other: Summary) -> Summary:
    """Join the statistics of two parts of a tensor, exactly; quantiles are lost."""
    counts = tuple(a + b for a, b in zip(one.counts, other.counts, strict=True))
    first, second = (each.counts[0] - sum(each.counts[1:4]) for each in (one, other))
    if not (first and second):
        kept = one if first else other
        return Summary(counts, (*kept.statistics[:5], _NAN, _NAN, _NAN))  # type: ignore[arg-type]
    (low, high, mean, std, absolute), (low2, high2, mean2, std2, absolute2) = (
        one.statistics[:5],
        other.statistics[:5],
    )
    share = second / (first + second)
    apart = mean2 - mean
    variance = (1 - share) * std * std + share * std2 * std2 + share * (1 - share) * apart * apart
    numbers = (min(low, low2), max(high, high2), mean + share * apart, math.sqrt(variance))
    return Summary(counts, (*numbers, absolute + share * (absolute2 - absolute), _NAN, _NAN, _NAN))  # type: ignore[arg-type]


def not_finite(torch: Any, flat: Any) -> tuple[Any, Any, Any]:
    """Return which elements are NaN, which are +inf, and which are -inf."""
    return torch.isnan(flat), torch.isposinf(flat), torch.isneginf(flat)


def smallest_normal(torch: Any, dtype: Any) -> float:
    """Return the smallest normal number of a type; for whole numbers anything but 0 is normal."""
    try:
        return float(torch.finfo(dtype).smallest_normal)
    except (TypeError, RuntimeError):
        return 0.0
