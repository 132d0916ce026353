"""All statistics of one tensor in as few passes as possible: on the host, or on a device without waiting.

Counts and extremes are exact. Sums run in blocks that fit the cache: absolute values in the tensor's own
precision (all of one sign, so nothing cancels), deviations from the first block's mean in double, which is
what
keeps the standard deviation right however far the mean lies from 0. Half precision is widened first.
Quantiles are exact for up to `EXACT` elements, beyond that those of `SAMPLE` evenly spaced ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

BLOCK = 1 << 17
"""Elements of a block: one MiB as doubles."""
EXACT = 4096
SAMPLE = 1024
_WIDE = 1e30
"""From this magnitude on, sums are made in double."""
_NAN = float("nan")
_COLUMNS = 256
_MIX = 0x9E37_79B9_7F4A_7C15 - (1 << 64)
QUANTILES = (0.05, 0.5, 0.95)
_DEVICE_BLOCK = 1 << 24
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
        self._ramp: Any = None

    def of(self, tensor: Any, *, quantiles: bool = True) -> Summary:
        """Summarize a tensor of the host, of any type and layout of memory. Takes no gradient."""
        tensor = tensor.detach()
        count = tensor.numel()
        if count == 0:
            return Summary((0, 0, 0, 0, 0, 0), EMPTY)
        tiny = _tiny(self._torch, tensor.dtype)
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
        low, high = (float(one) for one in torch.aminmax(flat))
        bad = (0, 0, 0)
        if not (math.isfinite(low) and math.isfinite(high)):
            bad = tuple(int(found.sum()) for found in _not_finite(torch, flat))  # type: ignore[assignment]
            flat = flat[torch.isfinite(flat)]
            if flat.numel() == 0:
                return Summary((count, *bad, 0, 0), EMPTY)
            low, high = (float(one) for one in torch.aminmax(flat))
        if max(-low, high) > _WIDE:
            flat = flat.double()
        zeros, small, absolute, mean, variance = self._moments(flat, tiny, low, high)
        found = (
            low,
            high,
            mean,
            math.sqrt(max(variance, 0.0)) if low != high else 0.0,
            absolute,
            *(self._quantiles(flat) if quantiles else (_NAN,) * 3),
        )
        return Summary((count, *bad, zeros, small), found)

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
                empty = length - int(torch.count_nonzero(block))
                zeros += empty
                small += max(int(torch.count_nonzero(a < tiny)) - empty, 0)
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
        """Return l2, mean and largest absolute difference of two tensors of the host."""
        torch = self._torch
        new, old = self.flat(tensor), self.flat(before)
        count = new.numel()
        size = min(count, BLOCK)
        doubles, room = self._scratch(torch.float64, size), self._scratch(new.dtype, size)
        squares = absolute = largest = 0.0
        for begin in range(0, count, BLOCK):
            block = new[begin : begin + BLOCK]
            difference, d = room[: block.numel()], doubles[: block.numel()]
            torch.sub(block, old[begin : begin + BLOCK], out=difference)
            d.copy_(difference)
            squares += float(torch.dot(d, d))
            difference.abs_()
            absolute += float(difference.sum())
            largest = max(largest, float(difference.amax()))
        return math.sqrt(squares), absolute / count if count else 0.0, largest

    def _quantiles(self, flat: Any) -> tuple[float, ...]:
        torch = self._torch
        count = flat.numel()
        if count > EXACT:
            flat = flat[:: (count // SAMPLE) | 1]  # odd, so that it meets every channel
        ordered = torch.sort(flat).values
        last = ordered.numel() - 1
        places = [quantile * last for quantile in QUANTILES]
        around = [index for place in places for index in (int(place), min(int(place) + 1, last))]
        values = ordered[around].tolist()
        return tuple(
            low + (high - low) * (place - int(place))
            for place, low, high in zip(places, values[::2], values[1::2], strict=True)
        )

    def on_device(self, tensor: Any, *, quantiles: bool = True) -> Any:
        """Return the same as a tensor of doubles, on the tensor's device: COUNTS without `count`, STATISTICS.

        Nothing is waited for: what `of` decides by looking is done here for all cases.
        """
        torch = self._torch
        flat = tensor.detach()
        flat = (torch.view_as_real(flat.resolve_conj()) if flat.is_complex() else flat).reshape(-1)
        tiny = _tiny(torch, tensor.dtype)
        zero = torch.zeros((), dtype=torch.float64, device=flat.device)
        nan, positive, negative, zeros, small, finite = zero, zero, zero, zero, zero, zero
        absolute, first, second = zero, zero, zero
        low, high = zero + math.inf, zero - math.inf
        head = flat[:BLOCK].double()
        shift = torch.where(torch.isfinite(head), head, 0.0).mean() if head.numel() else zero
        for begin in range(0, flat.numel(), _DEVICE_BLOCK):
            block = flat[begin : begin + _DEVICE_BLOCK].double()
            sound = torch.isfinite(block)
            magnitude = block.abs()
            finite = finite + sound.sum()
            found = [one.sum() for one in _not_finite(torch, block)]
            nan, positive, negative = nan + found[0], positive + found[1], negative + found[2]
            zeros = zeros + (block == 0).sum()
            small = small + ((magnitude < tiny) & (block != 0)).sum()
            absolute = absolute + torch.where(sound, magnitude, 0.0).sum()
            deviation = torch.where(sound, block - shift, 0.0)
            first = first + deviation.sum()
            second = second + deviation.square().sum()
            low = torch.minimum(low, torch.where(sound, block, math.inf).min())
            high = torch.maximum(high, torch.where(sound, block, -math.inf).max())
        offset = first / finite
        parts = [nan, positive, negative, zeros, small]
        parts += [torch.where(torch.isfinite(extreme), extreme, _NAN) for extreme in (low, high)]
        parts += [shift + offset, (second / finite - offset * offset).clamp(min=0).sqrt(), absolute / finite]
        parts = [part.double() for part in parts]
        if quantiles and flat.numel():
            step = (flat.numel() // SAMPLE) | 1 if flat.numel() > EXACT else 1
            sample = flat[::step].double()
            sample = torch.where(torch.isfinite(sample), sample, _NAN)
            wanted = torch.tensor(QUANTILES, dtype=torch.float64, device="cpu").to(
                flat.device, non_blocking=True
            )
            parts += list(torch.nanquantile(sample, wanted))
        else:
            parts += [zero + _NAN] * 3
        return torch.stack(parts)

    def fingerprint(self, tensor: Any) -> Any:
        """Return a hash of a tensor's bytes, as a tensor of one integer on the same device.

        Sums over rows and columns of the bytes as a table, each weighted by its place: two reads.
        """
        torch = self._torch
        flat = tensor.detach().contiguous().reshape(-1)
        size = flat.element_size()
        whole = flat.numel() - flat.numel() % max(8 // size, 1)
        if size > 8 or flat.storage_offset() * size % 8:
            flat, whole = flat.clone(), 0
        words = flat[:whole].view(torch.int64)
        rows = words.numel() // _COLUMNS
        body = words[: rows * _COLUMNS].view(rows, _COLUMNS)
        parts = [words[rows * _COLUMNS :], flat[whole:].view(torch.uint8).to(torch.int64)]
        if rows:
            parts += [body.sum(0), body.sum(1)]
        total = torch.zeros((), dtype=torch.int64, device=flat.device)
        for part in parts:
            total = total * 3 + (part * self._weights(part.numel(), part.device)).sum()
        return total

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

    def _scratch(self, dtype: Any, size: int) -> Any:
        """Return room for a block, kept for the next one."""
        room = self._room.get((dtype, 0))
        if room is None or room.numel() < size:
            room = self._room[dtype, 0] = self._torch.empty(size, dtype=dtype, device="cpu")
        return room[:size]

    def _weights(self, count: int, device: Any) -> Any:
        if self._ramp is None or count > self._ramp.numel():
            torch = self._torch
            self._ramp = (
                torch.arange(1, max(2 * count, 1 << 16), dtype=torch.int64, device="cpu")
                .mul_(_MIX)
                .bitwise_or_(1)
            )
        weights = self._ramp[:count]
        return weights if device.type == "cpu" else weights.to(device, non_blocking=True)


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


def _not_finite(torch: Any, flat: Any) -> tuple[Any, Any, Any]:
    return torch.isnan(flat), torch.isposinf(flat), torch.isneginf(flat)


def _tiny(torch: Any, dtype: Any) -> float:
    """Return the smallest normal number of a type; for whole numbers anything but 0 is normal."""
    try:
        return float(torch.finfo(dtype).smallest_normal)
    except (TypeError, RuntimeError):
        return 0.0
