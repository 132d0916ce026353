"""Reduces sparse and expanded tensors, which have more elements than memory, to their stored elements."""

from __future__ import annotations

from typing import Any


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
