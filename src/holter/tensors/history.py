"""Tables of reductions, worked out of rows of table `tensors`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.reductions import ASKED, REDUCTIONS, combined, derived
from holter.frame import Rows
from holter.schema.table import Table
from holter.tensors.errors import near

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray


def check_reductions(names: Iterable[str]) -> None:
    """Raise `ValueError` for a name that is no reduction; its text names the nearest."""
    for name in names:
        if name not in REDUCTIONS:
            raise ValueError(
                f"no reduction {name!r}{near(name, REDUCTIONS)}; there are: {', '.join(REDUCTIONS)}"
            )


def reduced(rows: Table, *, combine: bool = False) -> dict[str, NDArray[Any]]:
    """Return every reduction of rows of table `tensors`, next to `name`, `step`, `mode` and `rank`.

    Args:
        rows: The rows, sorted by name, step, mode, rank and time when they are to be combined.
        combine: Make one row of those of all ranks; its rank is -1. Of what a rank saved several times in a
            step, as in the batches of an evaluation, the last counts.
    """
    if not combine:
        kept = {column: rows[column] for column in ("name", "step", "mode", "rank")}
        return {**kept, **derived(rows.columns)}
    last = np.ones(rows.rows, dtype=bool)
    last[:-1] = _changes(rows, ("name", "step", "mode", "rank"))
    rows = rows.where(last)
    begins = np.zeros(rows.rows, dtype=bool)
    begins[:1] = True
    begins[1:] = _changes(rows, ("name", "step", "mode"))
    group = np.cumsum(begins) - 1
    groups = int(begins.sum())
    first = np.flatnonzero(begins)
    kept = {column: rows[column][first] for column in ("name", "step", "mode")}
    kept["rank"] = np.full(groups, -1, dtype=np.int32)
    return {**kept, **derived(combined(rows.columns, group, groups))}


def history_of(
    rows: Table,
    names: Sequence[str] = (),
    *,
    combine: bool = False,
    asked: Callable[[str], Table] | None = None,
) -> Rows:
    """Return a table of name, step, mode, rank and reductions, all of them when none is named.

    `asked` returns step, mode, rank and value of what rows of one tensor do not hold: see `ASKED`.
    """
    rows = rows.sorted("name", "step", "mode", "rank", "time") if combine else rows
    found = reduced(rows, combine=combine)
    wanted = names or REDUCTIONS
    for name in set(wanted) & set(ASKED):
        if asked is None:
            break
        kind, join = ASKED[name]
        parts: dict[tuple[int, str, int], list[float]] = {}
        for step, mode, rank, value in zip(*asked(kind).columns.values(), strict=True):
            parts.setdefault((int(step), str(mode), -1 if combine else int(rank)), []).append(float(value))
        for at in np.flatnonzero(np.isnan(found[name])):
            values = parts.get((int(found["step"][at]), str(found["mode"][at]), int(found["rank"][at])))
            if values:
                found[name][at] = join(values)
    return Rows(Table({c: found[c] for c in ("name", "step", "mode", "rank", *wanted)}))


def of_writing(rows: Table, step: int, mode: str, rank: int) -> NDArray[np.bool_]:
    """Tell which rows one rank wrote at one step."""
    found: NDArray[np.bool_] = (rows["step"] == step) & (rows["mode"] == mode) & (rows["rank"] == rank)
    return found


def nothing_finite(rows: Table) -> bool:
    """Tell whether a tensor had no finite element, so that its statistics are not numbers by right."""
    bad = rows["nan"] + rows["posinf"] + rows["neginf"]
    return bool(np.all(rows["count"] == bad))


def _changes(rows: Table, columns: Iterable[str]) -> NDArray[np.bool_]:
    """Tell for each row but the first whether it differs from the one before in any of some columns."""
    found = np.zeros(max(rows.rows - 1, 0), dtype=bool)
    for column in columns:
        found |= rows[column][1:] != rows[column][:-1]
    return found
