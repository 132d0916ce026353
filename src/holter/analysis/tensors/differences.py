"""Measures how far two recordings of one tensor are apart, relative to its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

COMPARED = ("min", "max", "mean", "std", "abs_mean", "q05", "q50", "q95")
_COUNTS = ("count", "nan", "posinf", "neginf")
_BLOCK = 1 << 22
EPSILON = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}
"""The distance of 1 to the next number, by type; statistics are stored in float32."""
_BITS = {"bfloat16": 8, "float16": 11}

Why = Literal["", "shape", "nonfinite"]
"""Why the distance of two tensors is infinite; empty for a finite one."""


class Apart(NamedTuple):
    """How far two tensors are apart."""

    same: bool
    """Whether all that was recorded is equal."""
    apart: float
    """Root mean square of the difference over that of the tensor; infinite for other shapes or NaN."""
    why: Why = ""


def rms(rows: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return the root mean square of tensors from rows of table `tensors`; 0 without finite elements."""
    square = rows["std"].astype(np.float64) ** 2 + rows["mean"].astype(np.float64) ** 2
    return np.sqrt(np.nan_to_num(square))


def of_statistics(
    before: Mapping[str, NDArray[Any]], after: Mapping[str, NDArray[Any]], least: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Compare rows of table `tensors`: whether they are equal, and their largest relative difference.

    A difference of statistics is at most that of the elements. Where one row has a statistic and the other
    lacks it, it does not count.

    Args:
        before: Columns of one job.
        after: The same columns of the other job, for the same tensors.
        least: A size for each tensor. Smaller tensors are compared with it, because they are sums of larger
            terms, whose round-off they have.
    """
    scale = np.maximum(np.maximum(rms(before), rms(after)), least)
    apart = np.zeros(len(scale))
    same = np.ones(len(scale), bool)
    with np.errstate(invalid="ignore", divide="ignore"):
        for name in COMPARED:
            one, other = before[name].astype(np.float64), after[name].astype(np.float64)
            size = scale
            if name in ("min", "max"):
                size = np.maximum(scale, np.maximum(np.abs(one), np.abs(other)))
            off = np.abs(one - other)
            apart = np.fmax(apart, np.where(off == 0, 0.0, off / size))
            same &= (off == 0) | np.isnan(off)
    other_counts = np.zeros(len(scale), bool)
    for name in _COUNTS:
        other_counts |= before[name] != after[name]
    known = (before["fingerprint"] != 0) & (after["fingerprint"] != 0)
    same &= ~other_counts & ~(known & (before["fingerprint"] != after["fingerprint"]))
    return same, np.where(other_counts, np.inf, apart)


def of_elements(before: NDArray[Any], after: NDArray[Any], least: float) -> Apart:
    """Compare the elements of a tensor, in double precision; `least` as for `of_statistics`."""
    if before.shape != after.shape:
        return Apart(False, np.inf, "shape")
    one, other = before.reshape(-1), after.reshape(-1)
    if before.dtype == after.dtype and np.array_equal(one.view(np.uint8), other.view(np.uint8)):
        return Apart(True, 0.0)
    if one.dtype.kind not in "fc" or other.dtype.kind not in "fc":
        return Apart(not (share := float(np.mean(one != other))), share)
    off = squares = others = 0.0
    for begin in range(0, len(one), _BLOCK):
        a, b = (_wide(x[begin : begin + _BLOCK]) for x in (one, other))
        finite = np.isfinite(a)
        if not np.array_equal(np.where(finite, 0, a), np.where(np.isfinite(b), 0, b), equal_nan=True):
            return Apart(False, np.inf, "nonfinite")
        a, b = a[finite], b[finite]
        off += float(np.sum(np.abs(a - b) ** 2))
        squares += float(np.sum(np.abs(a) ** 2))
        others += float(np.sum(np.abs(b) ** 2))
    scale = max(np.sqrt(max(squares, others) / max(len(one), 1)), least)
    return Apart(off == 0, float(np.sqrt(off / len(one)) / scale) if off else 0.0)


def _wide(x: NDArray[Any]) -> NDArray[Any]:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def types_of(rows: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return the type of each tensor as its extremes show it: `bfloat16`, `float16`, `float32`, or empty.

    The smallest and the largest element are stored as they are, so their significant bits show the type. A
    tensor of one value shows nothing.
    """
    used = np.maximum(_significant(rows["min"]), _significant(rows["max"]))
    found = np.where(used <= _BITS["bfloat16"], "bfloat16", "float32").astype(object)
    found[(used > _BITS["bfloat16"]) & (used <= _BITS["float16"])] = "float16"
    found[(rows["min"] == rows["max"]) & (rows["count"] > 1)] = ""
    found[used == 0] = ""
    return found


def types_of_numbers(values: NDArray[np.float64]) -> NDArray[Any]:
    """Return the type of numbers, as `types_of`."""
    alone = {"min": values.astype(np.float32), "max": values.astype(np.float32)}
    return types_of({**alone, "count": np.ones(len(values), np.int64)})


def _significant(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of bits from the first to the last set one of the mantissa; 0 for 0 and NaN."""
    mantissa, _ = np.frexp(np.where(np.isfinite(values), values, 0.0).astype(np.float64))
    whole = np.abs(mantissa * 2.0**24).astype(np.int64)
    lowest = whole & -whole
    trailing = np.log2(np.maximum(lowest, 1)).astype(np.int64)
    return np.where(whole == 0, 0, 24 - trailing)
