"""Describes a tensor beyond its statistics: sizes, elements, histograms, active units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.repeats import unrepeated
from holter.schema.tensor_spool import Values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from holter.recorder.frameworks.pytorch.tensors.statistics import Statistics

BINS = 64
LOWEST_EXPONENT = -64
"""Exponents are counted from here up; what lies outside is counted in the outermost bins."""
EXPONENTS = 128
LARGEST = 1 << 26
"""Elements of a tensor that is looked at for more than its statistics: that takes room of its own size."""
MAX_VALUES = 1 << 16
"""Elements of a tensor that is kept element by element, at most."""
_OF_ALL = {"histogram", "exponents", "abs_min", "prod"}
_SHARE_OF_STD = 0.01
_INSIDE = {"act_in:tanh": 3.8, "act_in:sigmoid": 6.0}
"""Beyond these inputs the function is flat."""


def described(
    torch: Any, tensor: Any, role: str, kept: AbstractSet[str], statistics: Statistics
) -> Iterator[tuple[Values, Any]]:
    """Yield what is kept of a tensor, as tensors on its device; nothing is waited for.

    Of what `too_large` names nothing is.

    Args:
        torch: The module.
        tensor: Strided, detached.
        role: Its role: what counts as active depends on it.
        kept: Which: `shape`, `values`, `histogram`, `exponents`, `active`, `abs_min`, `prod`.
        statistics: What flattens.
    """
    if kept & {"shape", "values"}:
        yield Values.SHAPE, torch.tensor(tuple(tensor.shape), dtype=torch.float64, device="cpu")
    count = tensor.numel()
    if not count:
        return
    if "values" in kept and count <= MAX_VALUES:
        yield Values.VALUE, statistics.flat(tensor)
    if "active" in kept and role.startswith("act_") and count <= LARGEST:
        units, samples = _active(torch, tensor, role)
        yield Values.ACTIVE, units
        yield Values.SAMPLES, torch.tensor([samples], dtype=torch.float64, device="cpu")
    once, times = unrepeated(tensor)
    if kept & _OF_ALL and once.numel() <= LARGEST:
        flat = statistics.flat(once)
        sound = torch.isfinite(flat)
        if "histogram" in kept:
            yield Values.HISTOGRAM, _histogram(torch, flat, sound) * times
        if "exponents" in kept:
            yield Values.EXPONENTS, _exponents(torch, flat, sound) * times
        none = ~sound.any()
        if "abs_min" in kept:
            nearest = torch.where(sound, flat.abs(), float("inf")).min()
            yield Values.ABS_MIN, torch.where(none, float("nan"), nearest)
        if "prod" in kept:
            product = torch.where(sound, flat, 1.0).prod(dtype=torch.float64) ** times
            yield Values.PROD, torch.where(none, float("nan"), product)


def too_large(tensor: Any, kept: AbstractSet[str]) -> AbstractSet[str]:
    """Return which of `kept` a tensor is too large for."""
    count = tensor.numel()
    if count <= MAX_VALUES:
        return frozenset()
    none = kept & {"values"}
    if count > LARGEST:
        none |= kept & {"active"}
        if unrepeated(tensor)[0].numel() > LARGEST:
            none |= kept & _OF_ALL
    return none


def _histogram(torch: Any, flat: Any, sound: Any) -> Any:
    """Count the finite elements in equal bins from the smallest to the largest."""
    low = torch.where(sound, flat, float("inf")).min()
    high = torch.where(sound, flat, float("-inf")).max()
    # In double, so that a tensor of few equal values does not fall between the bins.
    width = ((high.double() - low.double()) / BINS).clamp(min=1e-300)
    places = (
        ((torch.where(sound, flat, low).double() - low.double()) / width).clamp(0, BINS - 1).to(torch.int64)
    )
    return _counted(places, sound, BINS)


def _exponents(torch: Any, flat: Any, sound: Any) -> Any:
    """Count the finite elements that are not 0 by floor(log2|x|)."""
    counted = sound & (flat != 0)
    exponents = torch.frexp(torch.where(counted, flat, 1.0))[1].to(torch.int64) - 1
    places = (exponents - LOWEST_EXPONENT).clamp(0, EXPONENTS - 1)
    return _counted(places, counted, EXPONENTS)


def _counted(places: Any, sound: Any, bins: int) -> Any:
    """Count places; unlike `bincount` this does not wait for a device."""
    counts = sound.new_zeros(bins, dtype=places.dtype)
    return counts.scatter_add_(0, places, sound.to(places.dtype)).double()


def _active(torch: Any, tensor: Any, role: str) -> tuple[Any, int]:
    """Return for each unit in how many samples it was active, and how many samples there were.

    Units lie along axis 1, as channels and features do; of three axes along the last, as in sequences.
    """
    axis = min(1, tensor.dim() - 1) if tensor.dim() != 3 else 2
    table = tensor.float().movedim(axis, -1).reshape(-1, tensor.shape[axis])
    if role in _INSIDE:
        active = table.abs() <= _INSIDE[role]
    elif role.endswith(":relu"):
        active = table > 0
    else:
        active = table.abs() > _SHARE_OF_STD * table.std(correction=0)
    return active.sum(0).double(), table.shape[0]
