"""Tables of reductions, worked out of rows of table `tensors`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.tensors.parts import joined
from holter.analysis.tensors.reductions import ASKED, REDUCTIONS, derived
from holter.frame import Rows
from holter.schema.table import Table
from holter.tensors.errors import TensorUnavailableForStep, near

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from holter.store.saved_tensors import Writing


def check_reductions(names: Iterable[str]) -> None:
    """Raise `ValueError` for an unknown reduction; the text names the nearest one."""
    for name in names:
        if name not in REDUCTIONS:
            raise ValueError(
                f"no reduction {name!r}{near(name, REDUCTIONS)}; there are: {', '.join(REDUCTIONS)}"
            )


def reduced(rows: Table, *, combine: bool = False) -> dict[str, NDArray[Any]]:
    """Return every reduction of rows of table `tensors`, next to `name`, `step`, `mode` and `rank`.

    Args:
        rows: The rows.
        combine: Make one row of those of all ranks; its rank is -1. What ranks saved are its parts, unless
            they say which part they hold; then a step of which a part is missing has no row.
    """
    if combine:
        part = np.where(rows["parts"] > 0, rows["part"], rows["rank"])
        rows, _ = joined(Table({**rows.columns, "part": part}))
    kept = {column: rows[column] for column in ("name", "step", "mode", "rank")}
    return {**kept, **derived(rows.columns)}


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


def each_part(name: str, chosen: Sequence[Writing], stored: Table) -> Sequence[Writing]:
    """Return of what ranks saved of a tensor at a step one for each part, where they say which they hold.

    Raises:
        TensorUnavailableForStep: A part is missing.
    """
    parts = max(stored["parts"].tolist(), default=0)
    if not parts:
        return chosen
    holds = dict(zip(stored["rank"].tolist(), stored["part"].tolist(), strict=True))
    found = {holds[writing[2]]: writing for writing in reversed(chosen) if writing[2] in holds}
    if len(found) < parts:
        step, mode, _ = chosen[0]
        raise TensorUnavailableForStep(
            name, step, mode, hint=f"{parts - len(found)} of its {parts} parts are missing"
        )
    return list(found.values())


def last_of(rows: Table, writings: Sequence[Writing]) -> Table:
    """Return a row of each writing: the last, of what was saved twice, as by two calls of a module."""
    found = []
    for step, mode, rank in writings:
        mine = (rows["step"] == step) & (rows["mode"] == mode) & (rows["rank"] == rank)
        found.append(rows.where(np.flatnonzero(mine)[-1:]))
    return Table.concat(found)


def nothing_finite(rows: Table) -> bool:
    """Tell whether a tensor had no finite element, so that its statistics are not numbers by right."""
    bad = rows["nan"] + rows["posinf"] + rows["neginf"]
    return bool(np.all(rows["count"] == bad))
