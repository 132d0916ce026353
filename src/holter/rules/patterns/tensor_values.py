"""Elements of tensors at one step in their shape, and counts of active units."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.rules import State
    from holter.schema.table import Table


class UnitCounts(NamedTuple):
    """The number of samples for which each unit of a layer was active."""

    active: NDArray[np.float64]
    samples: int


def contents(table: Table) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return tensor → kind → its elements by position; of repeated positions the largest."""
    found: dict[str, dict[str, NDArray[np.float64]]] = {}
    groups: dict[tuple[str, str], list[int]] = {}
    for i, key in enumerate(zip(table["name"].tolist(), table["kind"].tolist(), strict=True)):
        groups.setdefault(key, []).append(i)
    for (name, kind), where in sorted(groups.items()):
        position, value = table["position"][where], table["value"][where]
        order = np.lexsort((value, position))
        position, value = position[order], value[order]
        last = np.append(position[1:] != position[:-1], True)
        found.setdefault(name, {})[kind] = value[last]
    return found


def shaped(kinds: dict[str, NDArray[np.float64]]) -> NDArray[np.float64] | None:
    """Return a tensor's elements in their shape, flat if it is unknown; None if they do not fit."""
    values = kinds.get("value")
    if values is None or not len(values):
        return None
    sizes = shape(kinds)
    if sizes is None:
        return values
    return values.reshape(sizes) if math.prod(sizes) == len(values) else None


def shape(kinds: dict[str, NDArray[np.float64]]) -> tuple[int, ...] | None:
    """Return a tensor's sizes, if they were recorded and are valid."""
    sizes = kinds.get("shape")
    if sizes is None or not np.all(np.isfinite(sizes)) or not np.all((sizes >= 1) & (sizes < 2**31)):
        return None
    return tuple(int(size) for size in sizes)


def units_within(tensor: NDArray[np.float64], low: float, high: float, node: str) -> UnitCounts | None:
    """Count for each unit the samples strictly between two values; axis 0 is the batch.

    Args:
        tensor: Elements in their shape, with at least two axes.
        low: A sample is active above it.
        high: A sample is active below it.
        node: `channel`: axis 1 holds the units, other axes are samples; `position`: those hold units.
    """
    if tensor.ndim < 2:
        return None
    flat = tensor.reshape(len(tensor), -1)
    if node == "channel":
        flat = np.moveaxis(tensor, 1, -1).reshape(-1, tensor.shape[1])
    return UnitCounts(((flat > low) & (flat < high)).sum(axis=0).astype(np.float64), len(flat))


def units_counted(kinds: dict[str, NDArray[np.float64]]) -> UnitCounts | None:
    """Return the recorder's counts of a layer's units."""
    active, samples = kinds.get("active"), kinds.get("samples")
    if active is None or samples is None or not len(active) or not np.all(np.isfinite(active)):
        return None
    count = samples[0]
    return UnitCounts(active, int(count)) if math.isfinite(count) and 1 <= count < 2**53 else None


def gathered(kept: State, key: str, new: UnitCounts, least: int) -> UnitCounts | None:
    """Add counts to the previous ones; return the sum and start over once there are `least` samples."""
    before = kept.get(key)
    if before is not None and len(before["active"]) == len(new.active):
        new = UnitCounts(new.active + np.array(before["active"]), new.samples + before["samples"])
    if new.samples < least:
        kept[key] = {"active": new.active.tolist(), "samples": new.samples}
        return None
    kept.pop(key, None)
    return new
