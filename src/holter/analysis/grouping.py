"""Groups rows by equal values of their columns, and adds amounts up by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.table import Codes, NameCodes, objects

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from holter.schema.table import Table


def coded(texts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the distinct texts of a column in order of appearance, and the index of each row's text."""
    names = NameCodes()
    codes = names.codes(texts, np.int32)
    return objects(names), codes


def groups(*columns: NDArray[Any]) -> dict[tuple[Any, ...], NDArray[np.int64]]:
    """Return which rows have the same values in all columns: values → numbers of rows, both as they come."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        known = Codes[Any]()
        own = known.codes(column)
        codes = codes * len(known) + own
        if codes.max(initial=0) >= 2**31:  # the next product must fit, too
            codes = np.unique(codes, return_inverse=True)[1]
    # Radix sort, which numpy has for small integers only.
    order = np.argsort(codes.astype(np.int16) if codes.max(initial=0) < 2**15 else codes, kind="stable")
    edges = np.flatnonzero(np.diff(codes[order])) + 1
    found = sorted(np.split(order, edges), key=lambda rows: int(rows[0])) if len(order) else []
    return {tuple(column[rows[:1]].tolist()[0] for column in columns): rows for rows in found}


def step_keys(rows: Table) -> NDArray[np.int64]:
    """Return a number for each row that only its rank and step have."""
    return rows["rank"].astype(np.int64) << 40 | rows["step"].astype(np.int64)


def sums(names: Iterable[str], amounts: Iterable[int]) -> dict[str, int]:
    """Add amounts up by name, the largest first, without zeros."""
    found: dict[str, int] = {}
    for name, amount in zip(names, amounts, strict=True):
        if amount:
            found[name] = found.get(name, 0) + int(amount)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def of_largest(totals: dict[str, int]) -> dict[str, float]:
    """Return each as a share of the largest, which is 1."""
    most = max(totals.values(), default=0)
    return {name: total / most for name, total in totals.items()} if most else {}


def percent(totals: dict[str, int], most: int) -> dict[str, float]:
    """Return the first `most` totals as percent of all."""
    every = sum(totals.values())
    return {name: 100.0 * total / every for name, total in list(totals.items())[:most]} if every else {}
