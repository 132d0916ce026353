"""Computes all statistics of one tensor of the host in as few passes as possible.

Counts and extremes are exact. Sums run over blocks that stay in the cache: absolute values in the tensor's
own precision (they have one sign, so nothing cancels), the sum itself in double. Squares of single precision
are summed in short rows, and the rows are summed in double. If that loses digits, because the mean is far
from 0 or elements are near the ends of the range, deviations from the mean are summed in double. Half
precision is widened first. Quantiles are exact up to `EXACT` elements, and come from `SAMPLE` evenly spaced
ones beyond.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from holter.recorder.frameworks.pytorch.tensors.blocks import BLOCK, BlockReader, Sums
from holter.recorder.frameworks.pytorch.tensors.summaries import EMPTY, Summary, joined
from holter.recorder.tensors.time_budget import in_time

EXACT = 4096
SAMPLE = 512
_WIDE = 1e30
"""From this magnitude on, sums are in double."""
QUANTILES = (0.05, 0.5, 0.95)
SLAB = 1 << 26
"""Elements summarized at once; larger tensors are summarized in pieces."""


class Statistics:
    """Computes statistics with torch; keeps buffers."""

    def __init__(self, torch: Any, *, slab: int = SLAB) -> None:
        self._torch = torch
        self._size = slab
        self._blocks = BlockReader(torch)
        self._places: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._tinies: dict[Any, float] = {}

    def of(self, tensor: Any, *, quantiles: bool = True) -> Summary:
        """Summarize a tensor of the host, of any type and memory layout.

        Raises:
            TooLong: The tensor is so large that this would stop the training for too long.
        """
        tensor = tensor.detach()
        count = tensor.numel()
        if count == 0:
            return Summary((0, 0, 0, 0, 0, 0), EMPTY)
        if count > EXACT and 0 in tensor.stride():
            tensor, times = unrepeated(tensor)
            if times > 1:
                return self._repeated(tensor, times, quantiles=quantiles)
        tiny = self._tiny(tensor.dtype)
        if count <= self._size:
            found = self._slab(tensor.reshape(-1), tiny, quantiles=quantiles)
            found.counts = (count, *found.counts[1:])  # both parts of complex numbers were counted
            return found
        if not (tensor.is_contiguous() or tensor.dim() == 1):
            # One row would be a copy, so summarize slices along the longest axis.
            axis = max(range(tensor.dim()), key=tensor.size)
            slices = tensor.split(max(tensor.size(axis) * self._size // count, 1), axis)
            return reduce(joined, (self.of(one, quantiles=False) for one in in_time(slices, count)))
        # Half precision is widened piece by piece.
        row = tensor.reshape(-1)
        pieces = in_time(row.split(self._size), count)
        found = reduce(joined, (self._slab(one, tiny, quantiles=False) for one in pieces))
        return self._with_quantiles(found, row) if quantiles else found

    def _repeated(self, tensor: Any, times: int, *, quantiles: bool) -> Summary:
        """Summarize an expanded tensor, whose elements are those of `tensor`, repeated."""
        found = self.of(tensor, quantiles=False)
        found.counts = tuple(times * one for one in found.counts)
        spread = tensor.numel() > EXACT and not (tensor.is_contiguous() or tensor.dim() == 1)
        if not quantiles or spread:  # one row would be a copy
            return found
        return self._with_quantiles(found, tensor.reshape(-1), times)

    def _with_quantiles(self, found: Summary, row: Any, times: int = 1) -> Summary:
        sample = self.flat(self.sample(row))
        sample = sample[self._torch.isfinite(sample)]
        if sample.numel():
            around = self.quantiles(sample[None], times)[0].tolist()
            found.statistics = (*found.statistics[:5], *around)
        return found

    def _tiny(self, dtype: Any) -> float:
        if dtype not in self._tinies:
            self._tinies[dtype] = smallest_normal(self._torch, dtype)
        return self._tinies[dtype]

    def _slab(self, row: Any, tiny: float, *, quantiles: bool) -> Summary:
        torch = self._torch
        flat, found = row, self._plain(row, tiny)
        if found is None:
            flat = self.flat(row)
            found = self._plain(flat, tiny) if flat.dtype is not row.dtype else None
        if found is not None:
            if quantiles:
                found.statistics = (*found.statistics[:5], *self._quantiles(self.sample(flat)))
            return found
        count = flat.numel()
        low, high = (float(one) for one in torch.aminmax(flat))
        bad: tuple[int, ...] = (0, 0, 0)
        if not (math.isfinite(low) and math.isfinite(high)):
            bad = tuple(int(found.sum()) for found in not_finite(torch, flat))
            flat = flat[torch.isfinite(flat)]
            if flat.numel() == 0:
                return Summary((count, *bad, 0, 0), EMPTY)
            low, high = (float(one) for one in torch.aminmax(flat))
        if max(-low, high) > _WIDE:
            flat = flat.double()
        zeros, small, absolute, mean, variance = self._moments(flat, tiny, low, high)
        std = math.sqrt(max(variance, 0.0)) if low != high else 0.0
        around = self._quantiles(self.sample(flat)) if quantiles else (math.nan,) * 3
        return Summary((count, *bad, zeros, small), (low, high, mean, std, absolute, *around))

    def _plain(self, row: Any, tiny: float) -> Summary | None:
        """Summarize a row the fast way; None if that is inexact, or not for its type or size."""
        if row.numel() <= EXACT:
            return None
        return _summary(self._blocks.read(row, tiny)[0], row.numel())

    def _moments(
        self, flat: Any, tiny: float, low: float, high: float
    ) -> tuple[int, int, float, float, float]:
        """Return counts of zeros and tiny elements, mean magnitude, mean and variance of finite elements."""
        torch = self._torch
        count = flat.numel()
        size = min(count, BLOCK)
        deviations = self._blocks.buffer(torch.float64, size)
        magnitudes = self._blocks.buffer(flat.dtype, size)
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
                more = self._blocks.near_zero(a, tiny)
                zeros, small = zeros + more[0], small + more[1]
            d.copy_(block)
            total = float(d.sum())
            if shift is None:
                # Far from 0, squares would lose the differences of the elements.
                shift = total / length if abs(total / length) > high - low else 0.0
            if shift:
                d.sub_(shift)
                total = float(d.sum())
            first += total
            second += float(torch.dot(d, d))
        offset = first / count
        return zeros, small, absolute / count, (shift or 0.0) + offset, second / count - offset * offset

    def brief(self, tensor: Any, before: Any = None) -> tuple[Summary, tuple[float, float, float] | None]:
        """Return statistics without quantiles, and, with `before`, the result of `change`.

        Contiguous tensors are read only once.
        """
        sums = change = None
        row = tensor.is_contiguous() and 0 < tensor.numel() <= self._size
        if row and (before is None or before.is_contiguous()):
            old = None if before is None else before.view(-1)
            sums, change = self._blocks.read(tensor.view(-1), self._tiny(tensor.dtype), old)
        norms = None
        if before is not None:
            norms = self.change(tensor, before) if change is None else change.norms(tensor.numel())
        return _summary(sums, tensor.numel()) or self.of(tensor, quantiles=False), norms

    def change(self, tensor: Any, before: Any) -> tuple[float, float, float]:
        """Return l2, mean and largest absolute difference of two tensors of the host.

        `before` is overwritten with `tensor`, for the next comparison.
        """
        new, old = self.flat(tensor), self.flat(before)
        shared = new.numel() > 0 and old.data_ptr() == before.data_ptr()
        found = self._blocks.change(new, old, keep=shared).norms(new.numel())
        if not shared:
            before.copy_(tensor)
        return found

    def _quantiles(self, sample: Any) -> tuple[float, ...]:
        return tuple(self.quantiles(self.flat(sample)[None])[0].tolist())

    def sample(self, flat: Any) -> Any:
        """Return the elements for quantiles: all of a small tensor, evenly spaced ones of a large tensor."""
        count = flat.numel()
        return flat if count <= EXACT else flat[:: (count // SAMPLE) | 1]  # odd: it meets every channel

    def quantiles(self, table: Any, times: int = 1) -> Any:
        """Return the quantiles of each row of a table of finite elements, each repeated, as doubles."""
        length = table.shape[1]
        if (length, times) not in self._places:
            self._places[length, times] = self._places_of_quantiles(length, times)
        around, shares = self._places[length, times]
        values = self._torch.sort(table, 1).values[:, around].double()
        low, high = values[:, ::2], values[:, 1::2]
        return low + (high - low) * shares

    def _places_of_quantiles(self, length: int, times: int) -> tuple[Any, Any]:
        """Return the sorted elements around each quantile, and its relative position between them."""
        last = length * times - 1
        places = [quantile * last for quantile in QUANTILES]
        around = [one // times for place in places for one in (int(place), min(int(place) + 1, last))]
        torch = self._torch
        shares = torch.tensor([place - int(place) for place in places], dtype=torch.float64, device="cpu")
        return torch.tensor(around, device="cpu"), shares

    def flat(self, tensor: Any) -> Any:
        """Return the elements as one row of float32 or float64, with both parts of complex numbers."""
        torch = self._torch
        tensor = tensor.detach()
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        if tensor.dtype not in (torch.float32, torch.float64):
            tensor = tensor.to(
                torch.float32 if tensor.is_floating_point() or tensor.dtype is torch.bool else torch.float64
            )
        return tensor.reshape(-1)


def _summary(found: Sums | None, count: int) -> Summary | None:
    """Return statistics from sums; None if squares lose too many digits."""
    if found is None:
        return None
    mean = found.total / count
    variance = found.squares / count - mean * mean
    if mean * mean > found.far * variance:
        return None
    variance = max(variance, 0.0)
    numbers = (
        found.low,
        found.high,
        mean,
        math.sqrt(variance),
        found.absolute / count,
        math.nan,
        math.nan,
        math.nan,
    )
    return Summary((count, 0, 0, 0, found.zeros, found.small), numbers)


def not_finite(torch: Any, flat: Any) -> tuple[Any, Any, Any]:
    """Return masks of the elements that are NaN, +inf, and -inf."""
    return torch.isnan(flat), torch.isposinf(flat), torch.isneginf(flat)


def smallest_normal(torch: Any, dtype: Any) -> float:
    """Return the smallest normal number of a floating-point type; 0 for integers."""
    try:
        return float(torch.finfo(dtype).smallest_normal)
    except (TypeError, RuntimeError):
        return 0.0


def unrepeated(tensor: Any) -> tuple[Any, int]:
    """Return a view without the axes along which memory repeats, and the number of repetitions."""
    times = 1
    for axis in reversed(range(tensor.dim())):
        if tensor.stride(axis) == 0 and tensor.size(axis) > 1:
            times *= tensor.size(axis)
            tensor = tensor.select(axis, 0)
    return tensor, times


def stored(tensor: Any) -> tuple[Any, int]:
    """Return the stored values of a sparse tensor, and the number of zeros that are not stored."""
    values = tensor.to_sparse().coalesce().values()
    return values, tensor.numel() - values.numel()
