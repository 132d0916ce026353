"""Computes algorithm and bus bandwidth of collectives by collective and message size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.table import NameCodes, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    if definition not in ("all", "tracelens"):
        raise ValueError(f"bandwidth has no definition {definition!r}; valid: all, tracelens")
    known = (kernels["kind"] == "communication") & (kernels["bytes"] > 0) & (kernels["duration"] > 0)
    rows = kernels.where(known & (kernels["group_size"] > 1)).sorted("time")
    groups: dict[tuple[Any, ...], dict[int, NDArray[np.int64]]] = {}
    names = ("collective", "process_group", "group_size", "bytes", "rank")
    keys = list(zip(*(rows[name].tolist() for name in names), strict=True))
    code = NameCodes()
    numbers = code.codes(map(repr, keys))
    first = {number: keys[i] for i, number in reversed(list(enumerate(numbers.tolist())))}
    for number, key in sorted(first.items()):
        groups.setdefault(key[:4], {})[key[4]] = rows["duration"][numbers == number]
    unit = 1 << 30 if definition == "tracelens" else 10**9
    found: list[tuple[Any, ...]] = []
    for (collective, group, size, moved), by_rank in groups.items():
        count = min(map(len, by_rank.values()))
        shortest = np.min([ns[:count] for ns in by_rank.values()], axis=0)
        speed = moved / unit / (shortest / 1e9)
        mean = float(speed.mean())
        found.append(
            (collective, group, size, moved, count, len(by_rank), int(np.median(shortest)), mean,
             mean * bus_factor(collective, size))
        )  # fmt: skip
    found.sort(key=lambda row: -row[3])
    titles = (
        "collective", "process_group", "group_size", "bytes", "operations", "ranks", "time_ns",
        "algorithm_gb_per_s", "bus_gb_per_s",
    )  # fmt: skip
    columns = zip(*found, strict=True) if found else [()] * len(titles)
    kinds: list[Any] = [object, object, *[np.int64] * 5, float, float]
    return Table({t: np.array(c, dtype=k) for t, c, k in zip(titles, columns, kinds, strict=True)})
