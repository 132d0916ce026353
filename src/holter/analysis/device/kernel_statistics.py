"""Statistics of kernels: time, launches, precision, and the division of device activity."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.device.kernel_names import product
from holter.analysis.device.work import KINDS, device_work
from holter.schema.table import NameCodes, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

OTHERS = "others"
"""Name of the row that joins all remaining kernels."""

_PRECISION = (
    ("fp8", re.compile(r"e4m3|e5m2|fp8|float8", re.IGNORECASE)),
    ("bf16", re.compile(r"bf16|bfloat16", re.IGNORECASE)),
    ("fp16", re.compile(r"half|fp16|(?<![a-z])f16", re.IGNORECASE)),
    ("tf32", re.compile(r"tf32|xf32", re.IGNORECASE)),
    ("fp64", re.compile(r"double|fp64|(?<![a-z])f64", re.IGNORECASE)),
    ("fp32", re.compile(r"float|fp32|(?<![a-z])f32|sgemm", re.IGNORECASE)),
    ("int8", re.compile(r"int8|signed char|unsigned char|uint8", re.IGNORECASE)),
    ("int64", re.compile(r"\blong\b|int64|(?<![a-z])i64", re.IGNORECASE)),
    ("int32", re.compile(r"[<, ]int[,>) ]|int32|(?<![a-z])i32", re.IGNORECASE)),
    ("bool", re.compile(r"\bbool\b")),
)
"""Types in a kernel's name, the ones that data are stored in before those that sums are kept in."""


def kernel_table(
    tables: Mapping[str, Table],
    *,
    by: str = "time",
    most: int | None = None,
    definition: str = "all",
    per_rank: bool = False,
) -> Table:
    """Add up the kernels of each name.

    Args:
        tables: As for `device_work`.
        by: `time` or `launches`: what is sorted by, the largest first.
        most: Rows to keep; the rest become one row `others`, the last one. All by default.
        definition: As for `device_work`. `hta` counts copies and fills among kernels, and gives the numbers
            of HTA's kernel table where that has ten names at most: from the eleventh on HTA gives the sum of
            each for its mean, largest and smallest, and a deviation of 0.
        per_rank: Keep ranks apart; `most` then counts for each.

    Returns:
        rank (-1 for all), name, kind (compute, communication, memory, other), launches, total_ns, mean_ns,
        min_ns, max_ns, deviation_ns (of a sample; 0 for a single launch), share_pct (of all kernels' summed
        time, of that rank).

    Raises:
        ValueError: `by`, `most` or `definition` has an unknown value.
    """
    if by not in ("time", "launches"):
        raise ValueError(f"kernels cannot be sorted by {by!r}; valid: time, launches")
    if most is not None and most < 1:
        raise ValueError(f"most is {most}, but must be at least 1")
    work = device_work(tables, definition).without_waits()
    if definition != "hta":
        kernels = (tables.get("kernels") or Table.empty("kernels")).rows
        work = work.where(slice(kernels))  # copies and fills come after them
    parts = []
    ranks = np.unique(work.rank).tolist() if per_rank else [-1]
    for rank in ranks:
        mine = work.where(work.rank == rank) if per_rank else work
        parts.append(_statistics(mine.name, mine.duration, mine.kind, work.names, rank, by, most))
    return Table.concat(parts) if parts else _statistics(*(np.empty(0, np.int64),) * 3, (), -1, by, most)


def _statistics(
    code: NDArray[Any], ns: NDArray[Any], kind: NDArray[Any], names: tuple[str, ...], rank: int, by: str,
    most: int | None,
) -> Table:  # fmt: skip
    number = np.bincount(code, minlength=len(names))
    total = np.bincount(code, weights=ns, minlength=len(names))
    smallest = np.full(len(names), np.iinfo(np.int64).max)
    largest = np.full(len(names), np.iinfo(np.int64).min)
    kinds = np.zeros(len(names), dtype=np.int64)
    np.minimum.at(smallest, code, ns)
    np.maximum.at(largest, code, ns)
    kinds[code] = kind
    mean = total / np.maximum(number, 1)
    square = np.bincount(code, weights=(ns - mean[code]) ** 2, minlength=len(names))
    deviation = np.sqrt(square / np.maximum(number - 1, 1))
    some = np.flatnonzero(number)
    key = total if by == "time" else number
    order = some[np.argsort(-key[some], kind="stable")]
    kept = order if most is None else order[:most]
    rest = order[len(kept) :]
    words = np.array(names, dtype=object)[kept] if names else np.empty(0, dtype=object)
    whole = max(float(total.sum()), 1.0)
    columns: dict[str, Any] = {
        "name": words,
        "kind": np.array(KINDS, dtype=object)[kinds[kept]],
        "launches": number[kept],
        "total_ns": total[kept].astype(np.int64),
        "mean_ns": mean[kept],
        "min_ns": smallest[kept],
        "max_ns": largest[kept],
        "deviation_ns": deviation[kept],
        "share_pct": 100.0 * total[kept] / whole,
    }
    if len(rest):
        mask = np.isin(code, rest)
        left = ns[mask]
        row = {
            "name": OTHERS,
            "kind": "other",
            "launches": len(left),
            "total_ns": int(left.sum()),
            "mean_ns": float(left.mean()),
            "min_ns": int(left.min()),
            "max_ns": int(left.max()),
            "deviation_ns": float(left.std(ddof=1)) if len(left) > 1 else 0.0,
            "share_pct": 100.0 * float(left.sum()) / whole,
        }
        columns = {
            name: np.append(column, np.array([row[name]], column.dtype)) for name, column in columns.items()
        }
    return Table({"rank": np.full(len(columns["name"]), rank), **columns})


@lru_cache(maxsize=65536)
def precision(name: str) -> str:
    """Return the precision of a kernel by its name; `other` if the name does not show it.

    Of a matrix product its inputs', else of the data that the name mentions: a kernel that reads bfloat16 and
    sums in float counts as bf16.
    """
    known = product(name)
    if known is not None:
        return known.precision or "other"
    return next((word for word, spelling in _PRECISION if spelling.search(name)), "other")


def kernel_precision(tables: Mapping[str, Table]) -> dict[str, float]:
    """Return the share of the compute kernels' time in each precision, percent, the largest first.

    Communication is left out: NCCL moves anything as bytes.
    """
    kernels = tables.get("kernels") or Table.empty("kernels")
    kernels = kernels.where(kernels["kind"] != "communication")
    names = NameCodes()
    code = names.codes(kernels["name"])
    total = np.bincount(code, weights=kernels["duration"], minlength=len(names))
    shares: dict[str, float] = {}
    for name, ns in zip(names, total.tolist(), strict=True):
        shares[precision(name)] = shares.get(precision(name), 0.0) + ns
    whole = sum(shares.values())
    return {word: 100.0 * ns / whole for word, ns in sorted(shares.items(), key=lambda x: -x[1]) if ns > 0}


def activity(tables: Mapping[str, Table]) -> dict[str, float]:
    """Divide device activity into compute, communication, memory and sync, percent of the summed durations.

    Sync is the time in which the host waited for a device: no device records one of its own.
    """
    work, syncs = device_work(tables), tables.get("syncs") or Table.empty("syncs")
    sums = {word: float(work.duration[work.kind == i].sum()) for i, word in enumerate(KINDS)}
    sums["sync"] = float(syncs["duration"].sum())
    whole = sum(sums.values())
    return {word: 100.0 * ns / whole for word, ns in sums.items() if ns > 0}


def memory_table(tables: Mapping[str, Table]) -> Table:
    """Add up copies and fills by kind and memory of the host's side.

    Returns:
        kind, memory, operations, total_ns, bytes, share_pct (of all their summed time), gb_per_s (bytes over
        time; NaN where the trace does not tell bytes), the longest first.
    """
    copies = tables.get("memory_operations") or Table.empty("memory_operations")
    names = NameCodes()
    pairs = zip(copies["kind"].tolist(), copies["memory"].tolist(), strict=True)
    code = names.codes([f"{kind}\n{memory}" for kind, memory in pairs])
    number = np.bincount(code, minlength=len(names))
    total = np.bincount(code, weights=copies["duration"], minlength=len(names))
    moved = np.bincount(code, weights=copies["bytes"], minlength=len(names))
    words = [name.split("\n") for name in names]
    order = np.argsort(-total, kind="stable")
    speed = np.divide(moved, total, out=np.full(len(total), np.nan), where=(total > 0) & (moved > 0))
    return Table(
        {
            "kind": np.array([kind for kind, _ in words], dtype=object)[order],
            "memory": np.array([memory for _, memory in words], dtype=object)[order],
            "operations": number[order],
            "total_ns": total[order].astype(np.int64),
            "bytes": moved[order].astype(np.int64),
            "share_pct": 100.0 * total[order] / max(float(total.sum()), 1.0),
            "gb_per_s": speed[order],
        }
    )
