"""Compares two traces by name: new, missing, longer and shorter operators and kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.host.operator_tree import DEVICE_SIDE
from holter.schema.table import NameCodes, Table

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
    per_step: bool = False,
) -> Table:
    """Compare two traces by the names of their events.

    Args:
        before: `kernels`, `memory_operations` and `operators` of one trace.
        after: Those of the other.
        side: `host` for operators, annotations and calls of the runtime, `device` for kernels and copies, or
            both.
        definition: `all`: everything, divided by the number of ranks of each trace. `hta`: the first step of
            the lowest rank, as HTA's `TraceDiff.compare_traces` does unless told otherwise; `spans` tell the
            steps.
        per_step: Divide by the number of steps too, for traces of unlike length; needs `spans`.

    Returns:
        name, side, change (one of `CHANGES`, by the number of calls), calls_before, calls_after, ns_before,
        ns_after, difference_ns, the largest difference of time first. Numbers of calls may have a fraction
        where they are divided.

    Raises:
        ValueError: No such side or definition.
    """
    if side not in SIDES:
        raise ValueError(f"side {side!r} is not known; valid: {', '.join(SIDES)}")
    if definition not in ("all", "hta"):
        raise ValueError(f"a difference has no definition {definition!r}; valid: all, hta")
    names = NameCodes()
    both = [_first_step(tables) if definition == "hta" else tables for tables in (before, after)]
    sums = [_sums(tables, names, side, per_step=per_step) for tables in both]
    size = len(names)
    (calls_a, ns_a), (calls_b, ns_b) = ([_long(column, size) for column in one] for one in sums)
    change = np.where(calls_b > calls_a, 2, np.where(calls_b < calls_a, 3, 4))
    change = np.where(calls_a == 0, 0, np.where(calls_b == 0, 1, change))
    order = np.argsort(-np.abs(ns_b - ns_a), kind="stable")
    keys = [name.partition(" ") for name in names]
    return Table(
        {
            "name": np.array([name for _, _, name in keys], dtype=object)[order],
            "side": np.array([word for word, _, _ in keys], dtype=object)[order],
            "change": np.array(CHANGES, dtype=object)[change][order],
            "calls_before": calls_a[order],
            "calls_after": calls_b[order],
            "ns_before": ns_a[order],
            "ns_after": ns_b[order],
            "difference_ns": (ns_b - ns_a)[order],
        }
    )


def _sums(
    tables: Mapping[str, Table], names: NameCodes, side: str, *, per_step: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    parts = []
    if side != "host":
        parts += [
            ("device", tables.get("kernels"), "name"),
            ("device", tables.get("memory_operations"), "kind"),
        ]
    if side != "device":
        operators = tables.get("operators")
        if operators is not None:
            operators = operators.where(~np.isin(operators["kind"], (*DEVICE_SIDE, "python", "module")))
        parts += [
            ("host", table, "name") for table in (operators, tables.get("launches"), tables.get("syncs"))
        ]
    code, ns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    ranks: set[int] = set()
    for word, rows, column in parts:
        if rows is None:
            continue
        ranks |= set(np.unique(rows["rank"]).tolist())
        code.append(names.codes([f"{word} {name}" for name in rows[column].tolist()]))
        ns.append(rows["duration"].astype(np.int64))
    codes, times = np.concatenate(code), np.concatenate(ns)
    divisor = max(len(ranks), 1) * (_steps(tables) if per_step else 1)
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


def _steps(tables: Mapping[str, Table]) -> int:
    spans = tables.get("spans") or Table.empty("spans")
    return max(len(np.unique(spans["step"][spans["phase"] == "step"])), 1)


def _long(column: NDArray[Any], size: int) -> NDArray[Any]:
    return np.concatenate([column, np.zeros(size - len(column))])
