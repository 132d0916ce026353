"""Joins the statistics of the parts of a sharded tensor, one per rank, to statistics of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.table import Table
from holter.schema.tensor_spool import COUNTS, DELTAS, STATISTICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

BASIS = ("count", "nan", "posinf", "neginf", "mean", "std")
"""The columns of table `tensors` without which nothing can be joined."""
_PLACE = ("name", "step", "mode", "parts")
"""Columns that are equal in all parts of a whole."""
_NEUTRAL: dict[str, object] = {"O": "", "f": np.nan}


def joined(rows: Table) -> tuple[Table, Table]:
    """Join rows of parts, step by step, to one of the whole.

    Of ranks that hold the same part the lowest counts, and of what it saved several times in a step, as in
    the batches of an evaluation, the last. A whole has the rank -1, the time of its last part, and of any
    column that cannot be joined the value of its parts, where that is one.

    Args:
        rows: Rows of table `tensors`, at least with name, step, mode, rank, time, part, parts and `BASIS`.
            Where `parts` is 0, as many as there are make a whole.

    Returns:
        The wholes by name, step and mode; and the rows of steps of which a part is missing.
    """
    keys = [_codes(rows[name]) for name in _PLACE]
    order = np.lexsort([rows["time"], -rows["rank"], rows["part"], *reversed(keys)])
    rows, keys = rows.where(order), [key[order] for key in keys]
    begins = _changes(keys)
    last = np.append(_changes([*keys, rows["part"]])[1:], True)
    group = np.cumsum(begins) - 1
    first, parts, whole = np.flatnonzero(begins), rows.where(last), group[last]
    there = np.bincount(whole, minlength=len(first))
    complete = (rows["parts"][first] == 0) | (there == rows["parts"][first])
    found = combined(parts.columns, whole, len(first))
    for name in parts.names:
        if name not in found:
            found[name] = _alike(parts[name], whole, len(first))
    found["rank"] = np.full(len(first), -1, dtype=np.int32)
    found["time"] = np.maximum.reduceat(rows["time"], first) if len(first) else rows["time"]
    if "fingerprint" in parts:
        found["fingerprint"] = _fingerprints(parts, whole, len(first))
    wholes = Table({name: found[name] for name in rows.names}).where(complete)
    return wholes, rows.where(~complete[group])


def whole(rows: Table) -> Table:
    """Return rows of table `tensors` with parts replaced by wholes; incomplete wholes are left out."""
    divided = rows["parts"] > 1
    return Table.concat([rows.where(~divided), joined(rows.where(divided))[0]]) if divided.any() else rows


def combined(
    parts: Mapping[str, NDArray[Any]], group: NDArray[np.int64], groups: int
) -> dict[str, NDArray[Any]]:
    """Combine parts of tensors, as shards on several ranks, to statistics of the whole: exact up to rounding.

    Counts and squares add up, so count, min, max, mean, std and abs_mean follow from the parts
    (Chan, Golub, LeVeque 1979 for the variance). Quantiles do not, so they are NaN unless one part has all
    elements.

    Args:
        parts: Columns of stored statistics, `BASIS` among them, one row a part.
        group: For each part, to which whole it belongs, from 0 on.
        groups: Number of wholes.

    Returns:
        The same of these columns, one row a whole.
    """
    counts = {c: _sums(np.asarray(parts[c], np.int64), group, groups) for c in COUNTS if c in parts}
    columns = {c: np.asarray(parts[c], dtype=np.float64) for c in (*STATISTICS, *DELTAS) if c in parts}
    some = np.asarray(parts["count"]) > 0
    each = np.asarray(parts["count"]) - sum(np.asarray(parts[c]) for c in ("nan", "posinf", "neginf"))
    n = np.where(np.isnan(columns["mean"]), 0, each).astype(np.float64)
    total = _sums(n, group, groups)
    unknown = _sums((each != n).astype(np.int64), group, groups) > 0

    def average(values: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = _sums(np.where(n > 0, values, 0.0) * n, group, groups) / total
        return np.where(unknown, np.nan, mean)

    mean = average(columns["mean"])
    variance = average(columns["std"] ** 2 + (columns["mean"] - mean[group]) ** 2)
    found: dict[str, NDArray[Any]] = {**counts, "mean": mean, "std": np.sqrt(variance)}
    filled_parts = np.bincount(group[some], minlength=groups)
    for name, values in columns.items():
        # A part without elements has no statistics, and takes nothing from those of the others.
        filled = np.where(some, values, 0.0)
        if name in ("min", "max"):
            most = _extremes(np.fmin if name == "min" else np.fmax, values, group, groups)
            found[name] = np.where(unknown, np.nan, most)
        elif name in ("abs_mean", "delta_abs_mean"):
            found[name] = average(values)
        elif name == "delta_l2":
            found[name] = np.where(filled_parts, np.sqrt(_sums(filled**2, group, groups)), np.nan)
        elif name == "delta_max":
            largest = _extremes(np.maximum, filled, group, groups)
            found[name] = np.where(filled_parts, largest, np.nan)
        elif name.startswith("q"):
            found[name] = np.where(filled_parts == 1, _sums(filled, group, groups), np.nan)
    return found


def _sums(values: NDArray[Any], group: NDArray[np.int64], groups: int) -> NDArray[Any]:
    sums = np.zeros(groups, dtype=values.dtype)
    np.add.at(sums, group, values)
    return sums


def _extremes(
    choose: np.ufunc, values: NDArray[np.float64], group: NDArray[np.int64], groups: int
) -> NDArray[np.float64]:
    found = np.full(groups, -np.inf if choose is np.maximum else np.nan)
    with np.errstate(invalid="ignore"):
        choose.at(found, group, values)
    return found


def _alike(values: NDArray[Any], group: NDArray[np.int64], groups: int) -> NDArray[Any]:
    """Return for each group the value that all its members have; nothing where they differ."""
    found = np.empty(groups, dtype=values.dtype)
    found[group] = values
    odd = np.zeros(groups, dtype=bool)
    odd[group[values != found[group]]] = True
    found[odd] = _NEUTRAL.get(values.dtype.kind, 0)
    return found


def _fingerprints(parts: Table, group: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Return a number that changes as any part does; 0 where a part has no fingerprint."""
    unknown = (parts["fingerprint"] == 0) & (parts["count"] > 0)
    sums = _sums(parts["fingerprint"], group, groups)  # a sum beyond 64 bits begins anew, as it may
    sums[group[unknown]] = 0
    return sums


def _codes(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return numbers in the order of values, texts of which few are distinct among them."""
    if values.dtype != object:
        return values
    listed = values.tolist()
    code = {text: i for i, text in enumerate(sorted(set(listed)))}
    return np.fromiter(map(code.__getitem__, listed), np.int64, len(listed))


def _changes(keys: list[NDArray[Any]]) -> NDArray[np.bool_]:
    """Return for each row whether it differs from the previous one in any key; the first row does."""
    found = np.zeros(len(keys[0]), dtype=bool)
    found[:1] = True
    for key in keys:
        found[1:] |= key[1:] != key[:-1]
    return found
