"""Tensors whose memory holds fewer elements than they have: sparse ones, and ones expanded without a copy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.tensors.statistics import Summary

_NAN = float("nan")


def unrepeated(tensor: Any) -> tuple[Any, int]:
    """Return a view of a tensor without the axes along which its memory repeats, and how often it does."""
    times = 1
    for axis in reversed(range(tensor.dim())):
        if tensor.stride(axis) == 0 and tensor.size(axis) > 1:
            times *= tensor.size(axis)
            tensor = tensor.select(axis, 0)
    return tensor, times


def stored(tensor: Any) -> tuple[Any, int]:
    """Return the stored values of a sparse tensor, and how many zeros are not stored."""
    values = tensor.to_sparse().coalesce().values()
    return values, tensor.numel() - values.numel()


def with_zeros(found: Summary, zeros: int) -> Summary:
    """Add zeros that were not stored; quantiles are not known then."""
    if not zeros:
        return found
    count, nan, positive, negative, zero, tiny = found.counts
    counts = (count + zeros, nan, positive, negative, zero + zeros, tiny)
    low, high, mean, std, absolute = (0.0 if math.isnan(one) else one for one in found.statistics[:5])
    share = (count - nan - positive - negative) / (count - nan - positive - negative + zeros)
    square = (std * std + mean * mean) * share
    mean *= share
    std = math.sqrt(max(square - mean * mean, 0.0))
    numbers = (min(low, 0.0), max(high, 0.0), mean, std, absolute * share, _NAN, _NAN, _NAN)
    return replace(found, counts=counts, statistics=numbers)
