"""Computes all statistics of a tensor on its device, without synchronization."""

from __future__ import annotations

import math
from typing import Any

from holter.recorder.frameworks.pytorch.tensors.statistics import (
    EXACT,
    QUANTILES,
    SAMPLE,
    not_finite,
    smallest_normal,
    unrepeated,
)

_BLOCK = 1 << 24
_TIMES = 64
"""Repetitions of the elements of an expanded tensor in its quantiles, at most."""
_HEAD = 1 << 16
"""Elements whose mean is subtracted from all elements, so that squares keep their digits."""


def on_device(torch: Any, tensor: Any, *, quantiles: bool = True) -> Any:
    """Return statistics as a tensor of doubles on the tensor's device: COUNTS without `count`, STATISTICS.

    It never waits for the device, so it has no branches that depend on values.
    """
    flat, times = unrepeated(tensor.detach())
    flat = (torch.view_as_real(flat.resolve_conj()) if flat.is_complex() else flat).reshape(-1)
    tiny = smallest_normal(torch, tensor.dtype)
    zero = torch.zeros((), dtype=torch.float64, device=flat.device)
    nan, positive, negative, zeros, small, finite = zero, zero, zero, zero, zero, zero
    absolute, first, second = zero, zero, zero
    low, high = zero + math.inf, zero - math.inf
    head = flat[:_HEAD].double()
    shift = torch.where(torch.isfinite(head), head, 0.0).mean() if head.numel() else zero
    for begin in range(0, flat.numel(), _BLOCK):
        block = flat[begin : begin + _BLOCK].double()
        sound = torch.isfinite(block)
        magnitude = block.abs()
        finite = finite + sound.sum()
        found = [one.sum() for one in not_finite(torch, block)]
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
    parts = [times * one for one in (nan, positive, negative, zeros, small)]
    parts += [torch.where(torch.isfinite(extreme), extreme, math.nan) for extreme in (low, high)]
    parts += [shift + offset, (second / finite - offset * offset).clamp(min=0).sqrt(), absolute / finite]
    parts = [part.double() for part in parts]
    if quantiles and flat.numel():
        step = (flat.numel() // SAMPLE) | 1 if flat.numel() > EXACT else 1
        sample = flat[::step].double()
        sample = torch.where(torch.isfinite(sample), sample, math.nan)
        sample = sample.repeat(min(times, _TIMES))
        wanted = torch.tensor(QUANTILES, dtype=torch.float64, device="cpu").to(flat.device, non_blocking=True)
        parts += list(torch.nanquantile(sample, wanted))
    else:
        parts += [zero + math.nan] * 3
    return torch.stack(parts)
