"""Computes algorithm and bus bandwidth of collectives by collective and message size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.device.work import check_definition
from holter.analysis.grouping import groups
from holter.schema.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COLUMNS = {
    "collective": object, "process_group": object, "group_size": np.int64, "bytes": np.int64,
    "operations": np.int64, "ranks": np.int64, "time_ns": np.int64, "algorithm_gb_per_s": float,
    "bus_gb_per_s": float,
}  # fmt: skip
_SHARED = ("reduce_scatter", "reducescatter", "allgather", "all_gather", "alltoall", "all_to_all")


def bus_factor(collective: str, ranks: int) -> float:
    """Return what of a message crosses each link: the bandwidth of the bus is this times the algorithm's.

    The factors of nccl-tests: 2(n-1)/n for an all-reduce, (n-1)/n where each rank has a share, else 1.
    """
    word = collective.lower().lstrip("_").replace("_base", "")
    if ranks < 2:
        return 1.0
    if word.startswith(("allreduce", "all_reduce")):
        return 2.0 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if word.startswith(_SHARED) else 1.0


def bandwidths(kernels: Table, *, definition: str = "all") -> Table:
    """Compute the bandwidth of collectives whose size and group are known.

    The time of a collective is that of its shortest kernel among the ranks, the others waited: the k-th of a
    process group and kind on each rank. With one rank in the trace it is that rank's kernel, and too long if
    that rank waited.

    Args:
        kernels: Table `kernels`.
        definition: `all` counts GB (10⁹ bytes) a second; `tracelens` GiB, as TraceLens does.

    Returns:
        collective, process_group, group_size, bytes (of one message), operations, ranks (seen), time_ns
        (median of the collectives), algorithm_gb_per_s, bus_gb_per_s (means over the collectives), the
        largest messages first.

    Raises:
        ValueError: Another definition.
    """
    check_definition(definition, ("all", "tracelens"))
    known = (kernels["kind"] == "communication") & (kernels["bytes"] > 0) & (kernels["duration"] > 0)
    rows = kernels.where(known & (kernels["group_size"] > 1)).sorted("time")
    by_kind: dict[tuple[Any, ...], dict[int, NDArray[np.int64]]] = {}
    names = ("collective", "process_group", "group_size", "bytes", "rank")
    for (*kind, rank), at in groups(*(rows[name] for name in names)).items():
        by_kind.setdefault(tuple(kind), {})[rank] = rows["duration"][at]
    unit = 1 << 30 if definition == "tracelens" else 10**9
    found: list[tuple[Any, ...]] = []
    for (collective, group, size, moved), by_rank in by_kind.items():
        count = min(map(len, by_rank.values()))
        shortest = np.min([ns[:count] for ns in by_rank.values()], axis=0)
        speed = moved / unit / (shortest / 1e9)
        mean = float(speed.mean())
        found.append(
            (collective, group, size, moved, count, len(by_rank), int(np.median(shortest)), mean,
             mean * bus_factor(collective, size))
        )  # fmt: skip
    found.sort(key=lambda row: -row[3])
    return Table.of_tuples(_COLUMNS, found)
