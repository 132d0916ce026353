"""Compares two traces by name: new, missing, longer and shorter operators and kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.device.work import check_definition
from holter.analysis.host.operator_tree import DEVICE_SIDE
from holter.schema.table import NameCodes, Table, objects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

CHANGES = ("added", "deleted", "increased", "decreased", "unchanged")
SIDES = ("host", "device", "both")


def trace_diff(
    before: Mapping[str, Table],
    after: Mapping[str, Table],
    *,
    side: str = "both",
    definition: str = "all",
) -> Table:
    """Compare two traces by the names of their events.

    Args:
        before: `kernels`, `memory_operations` and `operators` of one trace.
        after: Those of the other.
        side: `host` for operators, annotations and calls of the runtime, `device` for kernels and copies, or
            both.
        definition: `all`: everything, divided by the number of ranks of each trace. `hta`: the first step of
            the lowest rank, as HTA's `TraceDiff.compare_traces` does by default; `spans` have
            the steps.

    Returns:
        name, side, change (one of `CHANGES`, by the number of calls), calls_before, calls_after, ns_before,
        ns_after, difference_ns, the largest difference of time first. Numbers of calls may have a fraction
        where they are divided.

    Raises:
        ValueError: No such side or definition.
    """
    if side not in SIDES:
        raise ValueError(f"side {side!r} is not known; valid: {', '.join(SIDES)}")
    check_definition(definition, ("all", "hta"))
    names = NameCodes()
    both = [_first_step(tables) if definition == "hta" else tables for tables in (before, after)]
    sums = [_sums(tables, names, side) for tables in both]
    (calls_a, ns_a), (calls_b, ns_b) = ([np.pad(c, (0, len(names) - len(c))) for c in one] for one in sums)
    change = np.where(calls_b > calls_a, 2, np.where(calls_b < calls_a, 3, 4))
    change = np.where(calls_a == 0, 0, np.where(calls_b == 0, 1, change))
    keys = [name.partition(" ") for name in names]
    found = Table(
        {
            "name": objects([name for _, _, name in keys]),
            "side": objects([word for word, _, _ in keys]),
            "change": np.array(CHANGES, dtype=object)[change],
            "calls_before": calls_a,
            "calls_after": calls_b,
            "ns_before": ns_a,
            "ns_after": ns_b,
            "difference_ns": ns_b - ns_a,
        }
    )
    return found.where(np.argsort(-np.abs(ns_b - ns_a), kind="stable"))


def _sums(tables: Mapping[str, Table], names: NameCodes, side: str) -> tuple[NDArray[Any], NDArray[Any]]:
    operators = tables.get("operators") or Table.empty("operators")
    operators = operators.where(~np.isin(operators["kind"], (*DEVICE_SIDE, "python", "module")))
    device = [(tables.get("kernels"), "name"), (tables.get("memory_operations"), "kind")]
    on_host = [(table, "name") for table in (operators, tables.get("launches"), tables.get("syncs"))]
    parts = {"device": device, "host": on_host}
    code, ns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    ranks: set[int] = set()
    for word in parts if side == "both" else [side]:
        for rows, column in parts[word]:
            if rows is not None:
                ranks |= set(np.unique(rows["rank"]).tolist())
                code.append(names.codes([f"{word} {name}" for name in rows[column].tolist()]))
                ns.append(rows["duration"].astype(np.int64))
    codes, times = np.concatenate(code), np.concatenate(ns)
    divisor = max(len(ranks), 1)
    return np.bincount(codes) / divisor, np.bincount(codes, weights=times) / divisor


def _first_step(tables: Mapping[str, Table]) -> dict[str, Table]:
    """Keep what belongs to the first step of the lowest rank, or to that rank where there are no steps."""
    spans = tables.get("spans") or Table.empty("spans")
    steps = spans.where(spans["phase"] == "step")
    ranks = [int(table["rank"].min()) for table in tables.values() if table.rows and "rank" in table]
    rank = min(ranks, default=0)
    mine = steps["step"][steps["rank"] == rank]
    kept = {}
    for name, table in tables.items():
        if "rank" in table:
            mask = table["rank"] == rank
            if len(mine) and "step" in table:
                mask &= table["step"] == mine.min()
            kept[name] = table.where(mask)
    return kept
