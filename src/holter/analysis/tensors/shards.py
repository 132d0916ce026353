"""Joins norms of the parts of a sharded model, one per rank, to the norm of the whole."""

from __future__ import annotations

import numpy as np

from holter.analysis.grouping import groups
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
        rows: All rows of their steps, at least step, name and value.
    """
    codes, names = rows.coded("name")
    parts = np.flatnonzero(np.isin(codes, [at for at, name in enumerate(names) if name.endswith(SUFFIX)]))
    if not len(parts):
        return rows
    kept = np.ones(rows.rows, dtype=bool)
    kept[parts] = False
    value, name = rows["value"].copy(), rows["name"].copy()
    for (_, part), at in groups(rows["step"][parts], rows["name"][parts]).items():
        first = parts[at[0]]
        kept[first], name[first] = True, whole(part)
        value[first] = np.sqrt((value[parts[at]] ** 2).sum())
    return Table({**rows.columns, "value": value, "name": name}).where(kept)
