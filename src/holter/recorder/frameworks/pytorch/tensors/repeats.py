"""Reduces tensors that have more elements than memory: sparse and expanded ones."""

from __future__ import annotations

from typing import Any

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
