"""Joins norms of the parts of a sharded model, one per rank, to the norm of the whole."""

from __future__ import annotations

import numpy as np

from holter.schema.table import Table

SUFFIX = "/shard"
"""Ends the name of such a norm: `grad_norm/shard` on each rank is a part of `grad_norm`."""


def whole(name: str) -> str:
    """Return the name of the whole that a number is a part of; other names stay as they are."""
    return name.removesuffix(SUFFIX)


def joined(rows: Table) -> Table:
    """Return rows with the norms of parts replaced, step by step, by those of the whole.

    Parts share no element, so the norm of the whole is the root of the sum of their squares over ranks. Where
    a rank wrote several at one step (one for each optimizer), they are its parts too.

    Args:
        rows: All rows of their steps, as `settled` gives them; at least step, name and value.
    """
    names = rows["name"].tolist()
    if not any(name.endswith(SUFFIX) for name in set(names)):
        return rows
    parts = np.flatnonzero([name.endswith(SUFFIX) for name in names])
    first: dict[tuple[int, str], int] = {}
    squares: dict[int, float] = {}
    for at, step, value in zip(
        parts.tolist(), rows["step"][parts].tolist(), rows["value"][parts].tolist(), strict=True
    ):
        place = first.setdefault((step, names[at]), at)
        squares[place] = squares.get(place, 0.0) + value * value
    kept = np.ones(rows.rows, dtype=bool)
    kept[parts] = False
    kept[list(squares)] = True
    value, name = rows["value"].copy(), rows["name"].copy()
    value[list(squares)] = np.sqrt(list(squares.values()))
    name[parts] = [whole(names[at]) for at in parts.tolist()]
    columns = {**{one: rows[one] for one in rows.columns}, "value": value, "name": name}
    return Table(columns).where(kept)
