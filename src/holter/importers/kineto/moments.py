"""Times of trace events in whole nanoseconds, out of microseconds as numbers and as text."""

from __future__ import annotations

from array import array
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def nanoseconds(microseconds: list[Any]) -> NDArray[np.int64]:
    """Return times in whole nanoseconds; one that 64 bits cannot hold becomes the latest there is."""
    try:
        return of_fractions(np.frombuffer(array("d", microseconds), np.float64))
    except (TypeError, OverflowError, ValueError):
        return np.array([_one(value) for value in microseconds], np.int64)


def of_fractions(exact: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return times given in microseconds; one that 64 bits cannot hold becomes the latest there is."""
    # Microseconds since the epoch take 51 bits: whole and fraction apart, nothing more is lost.
    near = np.abs(exact) < 2**62 / 1000
    if not (all_near := near.all()):
        exact = np.where(near, exact, 0.0)
    whole = exact.astype(np.int64)
    time = whole * 1000 + np.rint((exact - whole) * 1000).astype(np.int64)
    return time if all_near else np.where(near, time, 2**62)


def _one(microseconds: Any) -> int:
    """Return one time in nanoseconds, also from text (torch_npu); the latest time for anything else."""
    try:
        exact = Decimal(microseconds) * 1000
        return int(exact) if abs(exact) < 2**62 else 2**62
    except (ArithmeticError, ValueError, TypeError):
        return 2**62
