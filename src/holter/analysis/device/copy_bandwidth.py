"""Computes the bandwidth of copies and fills over time and by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.work import COPIES, check_definition, device_work, hta_rounded
from holter.schema.table import NameCodes, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def copy_bandwidth(tables: Mapping[str, Table], *, definition: str = "all") -> Table:
    """Compute how many GB (10⁹ bytes) a second are moved, from each begin and end of a copy on.

    Copies of one kind that run at once add up. Each moves its bytes evenly from its begin to its end.

    Args:
        tables: `memory_operations`; for `hta` also `launches` and `operators`.
        definition: With `hta`, begins and ends are whole microseconds, a copy of none lasts one, and only
            what was launched before the last step counts, as in its `get_memory_bw_time_series`. A copy that
            lies between two microseconds ends before it begins there, so that its bandwidth is taken away
            from what moves meanwhile, and counts nowhere (HTA's fault; `all` is without). HTA takes
            each bandwidth from the profiler, which knew nanoseconds; where the trace tells whole
            microseconds, that differs from bytes over duration by what was rounded away.

    Returns:
        rank, kind (as `COPIES` calls it), time (ns), gb_per_s; by rank, kind and time.

    Raises:
        ValueError: No such definition.
    """
    check_definition(definition)
    copies = tables.get("memory_operations") or Table.empty("memory_operations")
    begin, end = copies["time"], copies["time"] + copies["duration"]
    # The bandwidth is that of the exact duration, as the profiler tells it.
    speed = copies["bytes"] / np.maximum(copies["duration"], 1)
    keep = copies["bytes"] > 0
    if definition == "hta":
        keep &= _kept(tables, copies)
        begin, end = hta_rounded(begin, end)
        end = np.where(end == begin, begin + 1000, end)
    kinds = NameCodes()
    code = kinds.codes(COPIES.get(kind, f"Memcpy {kind}") for kind in copies["kind"].tolist())
    rows = np.flatnonzero(keep & (end != begin))
    time = np.concatenate([begin[rows], end[rows]])
    change = np.concatenate([speed[rows], -speed[rows]])
    # What begins when another ends counts first: the sum never falls below nothing.
    order = np.lexsort((np.sign(-change), time, np.tile(code[rows], 2), np.tile(copies["rank"][rows], 2)))
    which = np.tile(rows, 2)[order]
    # Each rank and kind by itself: what floats leave over must not reach the next.
    keys = np.stack((copies["rank"][which], code[which])) if len(which) else np.zeros((2, 0), np.int64)
    parts = np.split(change[order], np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1)
    total = np.concatenate([np.cumsum(part) for part in parts])
    return Table(
        {
            "rank": copies["rank"][which],
            "kind": np.array(list(kinds), dtype=object)[code[which]] if len(which) else np.zeros(0, object),
            "time": time[order],
            # What floats leave where nothing moves is no bandwidth.
            "gb_per_s": np.where(total < 1e-9, 0.0, total),
        }
    )


def copy_bandwidth_summary(tables: Mapping[str, Table], *, definition: str = "all") -> Table:
    """Sum up the bandwidth of copies and fills by rank and kind, over the moments at which any moves.

    With `definition="hta"` its `get_memory_bw_summary`, but that HTA leaves out traces that tell no
    bandwidth, and counts moments at which floats leave some 1e-13 GB/s over.

    Args:
        tables: As for `copy_bandwidth`.
        definition: As for `copy_bandwidth`.

    Returns:
        rank, kind, count (of moments), and in GB/s mean, deviation (of a sample; NaN for one moment),
        least, quarter, median, three_quarters, most.

    Raises:
        ValueError: No such definition.
    """
    series = copy_bandwidth(tables, definition=definition)
    series = series.where(series["gb_per_s"] > 0)
    found = []
    for rank, kind in sorted(set(zip(series["rank"].tolist(), series["kind"].tolist(), strict=True))):
        values: NDArray[np.float64] = series["gb_per_s"][(series["rank"] == rank) & (series["kind"] == kind)]
        quarters = np.percentile(values, [0, 25, 50, 75, 100]).tolist()
        deviation = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
        found.append((rank, kind, len(values), float(values.mean()), deviation, *quarters))
    names = [
        "rank",
        "kind",
        "count",
        "mean",
        "deviation",
        "least",
        "quarter",
        "median",
        "three_quarters",
        "most",
    ]
    columns = list(zip(*found, strict=True)) if found else [()] * len(names)
    return Table(
        {
            name: np.array(column, dtype=object if name == "kind" else None)
            for name, column in zip(names, columns, strict=True)
        }
    )


def _kept(tables: Mapping[str, Table], copies: Table) -> NDArray[np.bool_]:
    """Return which copies HTA counts."""
    others = {name: table for name, table in tables.items() if name in ("launches", "operators")}
    work = device_work({**others, "memory_operations": copies}, "hta")
    counted = set(zip(work.rank.tolist(), work.correlation.tolist(), strict=True))
    pairs = zip(copies["rank"].tolist(), copies["correlation"].tolist(), strict=True)
    return np.fromiter((pair in counted for pair in pairs), bool, copies.rows)
