"""Statistics of kernels: time, launches, precision, and the division of device activity."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.device.kernel_names import product
from holter.analysis.device.work import KINDS, device_work
from holter.analysis.grouping import groups
from holter.schema.table import NameCodes, Table, objects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.analysis.device.work import Ints

_MEMORY = {
    "kind": object, "memory": object, "operations": np.int64, "total_ns": np.int64, "bytes": np.int64,
    "share_pct": float, "gb_per_s": float,
}  # fmt: skip
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
"""Types in a kernel's name; types of stored data come before types of sums."""


def kernel_table(
    tables: Mapping[str, Table], *, by: str = "time", most: int | None = None, definition: str = "all"
) -> Table:
    """Add up the kernels of each name.

    Args:
        tables: As for `device_work`.
        by: `time` or `launches`: the number that rows are sorted by, the largest first.
        most: Rows to keep; the rest become one row `others`, the last one. All by default.
        definition: As for `device_work`. `hta` counts copies and fills among kernels, and gives the numbers
            of HTA's kernel table where that has ten names at most: from the eleventh on HTA gives the sum of
            each for its mean, largest and smallest, and a deviation of 0.

    Returns:
        rank (-1: all), name, kind (compute, communication, memory, other), launches, total_ns, mean_ns,
        min_ns, max_ns, deviation_ns (of a sample; 0 for a single launch), share_pct (of all kernels' summed
        time).

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
    ns = work.duration
    key = np.bincount(work.name, None if by == "launches" else ns, len(work.names))
    launched = np.unique(work.name)
    order = launched[np.argsort(-key[launched], kind="stable")]
    kept = order[:most]
    kinds = np.zeros(len(work.names), dtype=np.int64)
    kinds[work.name] = work.kind
    names, words = [work.names[i] for i in kept], [KINDS[i] for i in kinds[kept]]
    if len(kept) < len(order):
        names, words = [*names, OTHERS], [*words, "other"]
    place = np.full(len(work.names), len(kept))
    place[kept] = np.arange(len(kept))
    launches, statistics = duration_statistics(place[work.name], ns, len(names))
    share = 100.0 * statistics["total_ns"] / max(float(ns.sum()), 1.0)
    head = {"rank": np.full(len(names), -1), "name": objects(names), "kind": objects(words)}
    return Table({**head, "launches": launches, **statistics, "share_pct": share})


def duration_statistics(code: Ints, ns: Ints, count: int) -> tuple[Ints, dict[str, NDArray[Any]]]:
    """Return number, and total, mean, least, largest and deviation of the durations of each code."""
    number = np.bincount(code, minlength=count)
    total = np.bincount(code, ns, count)
    mean = total / np.maximum(number, 1)
    least, largest = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(least, code, ns)
    np.maximum.at(largest, code, ns)
    square = np.bincount(code, (ns - mean[code]) ** 2, count)
    return number, {
        "total_ns": total.astype(np.int64),
        "mean_ns": mean,
        "min_ns": least,
        "max_ns": largest,
        "deviation_ns": np.sqrt(square / np.maximum(number - 1, 1)),
    }


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
    found = groups(copies["kind"], copies["memory"])
    rows = []
    for (kind, memory), at in found.items():
        total, moved = int(copies["duration"][at].sum()), int(copies["bytes"][at].sum())
        speed = moved / total if total and moved else float("nan")
        rows.append((kind, memory, len(at), total, moved, speed))
    rows.sort(key=lambda row: -row[3])
    whole = max(sum(row[3] for row in rows), 1)
    return Table.of_tuples(_MEMORY, [(*row[:5], 100.0 * row[3] / whole, row[5]) for row in rows])
