"""Samples the elements of a tensor that is data, and describes them in a few numbers."""

from __future__ import annotations

import ctypes
import math
from array import array
from typing import Any

ELEMENTS = 256
"""Sampled elements of one tensor."""
COPIED = 1 << 16
"""Elements of a tensor whose memory has gaps, which is copied to sample it; larger ones stay unknown."""
READ = 1 << 18
"""Elements that are searched for NaN."""


def dense(tensor: Any) -> Any:
    """Return a tensor without gaps in its memory, a small one as a copy; None for others."""
    if not tensor.numel() or tensor.is_meta or not (tensor.is_cpu or tensor.is_cuda):
        return None
    if str(tensor.layout) != "torch.strided" or tensor.is_complex() or tensor.is_quantized:
        return None
    if tensor.is_floating_point() and tensor.element_size() == 1:
        return None
    tensor = tensor.detach()
    if tensor.is_contiguous():
        return tensor
    by_channel = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}.get(tensor.dim())
    if by_channel is not None and tensor.permute(by_channel).is_contiguous():
        return tensor.permute(by_channel)
    return tensor.contiguous() if tensor.numel() <= COPIED else None


def sampled(flat: Any) -> Any:
    """Return up to `ELEMENTS` elements of a dense tensor, from all of its columns, as doubles."""
    size, width = flat.numel(), flat.shape[-1] if flat.dim() else 1
    every = max(size // ELEMENTS, 1)
    while math.gcd(every, width) > 1:  # else only some columns would be seen
        every -= 1
    return flat.as_strided((min(size, ELEMENTS),), (every,)).double()


def numbers(host: Any) -> list[float]:
    """Return the doubles of a tensor on the host."""
    found = array("d")
    found.frombytes(ctypes.string_at(host.data_ptr(), 8 * host.numel()))
    return found.tolist()


def described(values: list[float]) -> dict[str, Any]:
    """Return how many of the numbers are not finite, and range, mean and deviation of the others."""
    finite = [one for one in values if math.isfinite(one)]
    found: dict[str, Any] = {"sampled": len(values), "nonfinite": len(values) - len(finite)}
    if finite:
        mean = sum(finite) / len(finite)
        found |= {
            "low": min(finite),
            "high": max(finite),
            "mean": mean,
            "std": math.sqrt(sum((one - mean) ** 2 for one in finite) / len(finite)),
            "whole": all(one.is_integer() for one in finite),
        }
    return found
