"""Computes what is kept of a tensor besides statistics: sizes, elements, histograms, active units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.statistics import unrepeated
from holter.schema.tensor_spool import Values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from holter.recorder.frameworks.pytorch.tensors.statistics import Statistics

BINS = 64
LOWEST_EXPONENT = -64
"""The lowest bin of exponents; exponents outside of all bins count in the outermost ones."""
EXPONENTS = 128
LARGEST = 1 << 26
"""Elements of a tensor with more than statistics, at most: their computation takes memory of its size."""
MAX_VALUES = 1 << 16
"""Elements of a tensor that is stored element by element, at most."""
_OF_ALL = {"histogram", "exponents", "abs_min", "prod"}
_SHARE_OF_STD = 0.01
_INSIDE = {"act_in:tanh": 3.8, "act_in:sigmoid": 6.0}
"""Magnitudes of inputs beyond which the function is flat."""


def described(
    torch: Any, tensor: Any, role: str, kept: AbstractSet[str], statistics: Statistics
) -> Iterator[tuple[Values, Any]]:
    """Yield what is kept of a strided tensor, as tensors on its device, without waiting for the device.

    `kept` are kinds from `collections.KEPT`, without those in `too_large`. Active units depend on the role.
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
    """Return the kinds in `kept` for which a tensor is too large."""
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
    # In double, so that a tensor with few distinct values does not fall between the bins.
    width = ((high.double() - low.double()) / BINS).clamp(min=1e-300)
    places = (
        ((torch.where(sound, flat, low).double() - low.double()) / width).clamp(0, BINS - 1).to(torch.int64)
    )
    return _counted(places, sound, BINS)


def _exponents(torch: Any, flat: Any, sound: Any) -> Any:
    """Count the finite nonzero elements by floor(log2|x|)."""
    counted = sound & (flat != 0)
    exponents = torch.frexp(torch.where(counted, flat, 1.0))[1].to(torch.int64) - 1
    places = (exponents - LOWEST_EXPONENT).clamp(0, EXPONENTS - 1)
    return _counted(places, counted, EXPONENTS)


def _counted(places: Any, sound: Any, bins: int) -> Any:
    """Count the elements in each bin; unlike `bincount`, this does not wait for a device."""
    counts = sound.new_zeros(bins, dtype=places.dtype)
    return counts.scatter_add_(0, places, sound.to(places.dtype)).double()


def _active(torch: Any, tensor: Any, role: str) -> tuple[Any, int]:
    """Return the number of samples in which each unit was active, and the number of samples.

    Units are along axis 1, as channels and features are; with three axes along the last, as in sequences.
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
