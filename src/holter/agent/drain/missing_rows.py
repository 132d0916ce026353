"""Writes only rows that a job does not hold yet, and all at once, for the recovery of a spool."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.table import Table
from holter.schema.tables import TABLES
from holter.store.trial import Trial
from holter.store.writer import Writer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.store.job import JobFolder
    from holter.store.parquet.columns import Columns

_SAME = {
    "spans": ("time", "duration", "worker", "thread", "step", "phase", "name"),
    "scalars": ("time", "step", "name", "value"),
    "events": ("kind", "name", "detail"),
    "tensors": ("time", "step", "mode", "name", "part"),
    "tensor_values": ("time", "step", "mode", "name", "kind", "position"),
}
"""Columns that identify a row. The rank is not one of them, because a process can learn it late."""


class MissingRowsWriter(Writer):
    """A writer for rows some of which may be stored already, of a node on which nothing else writes.

    The n-th row of its kind is new when the store holds fewer than n of them.
    """

    def __init__(self, folder: JobFolder, node: str) -> None:
        super().__init__(folder, node)
        self.new: dict[str, int] = {}
        """Rows of each table that were written."""
        self._trial = Trial(folder)
        self._seen: dict[str, list[NDArray[np.uint64]]] = defaultdict(list)
        """Of each table, the sorted hashes of every batch so far; the store holds all these rows."""

    def append(self, table: str, columns: Columns) -> None:
        """Write the rows that the store lacks. Raises `OSError` when it cannot take them."""
        mask = self._lacking(table, columns)
        rows = int(mask.sum())
        if not rows:
            return
        super().append(table, {name: _where(column, mask) for name, column in columns.items()})
        if not self.flush(table):
            raise OSError(self.fault or f"{table} cannot be written")
        self.new[table] = self.new.get(table, 0) + rows

    def holds(self, mark: dict[str, int]) -> bool:
        """Return False: recovery removes the whole spool once the job is closed."""
        return False

    def _lacking(self, table: str, columns: Columns) -> NDArray[np.bool_]:
        names = [n for n in _SAME.get(table, [n for n in columns if n != "rank"]) if n in columns]
        fresh = {name: _plain(columns[name]) for name in names}
        count = len(next(iter(fresh.values())))
        if not count:
            return np.zeros(0, bool)
        types = {column.name: column.type for column in TABLES[table].columns}
        key = f"hash({', '.join(_comparable(name, types[name]) for name in names)})"
        hashes = self._trial.sql(
            f"SELECT {key} AS h FROM fresh ORDER BY row",  # noqa: S608
            more={"fresh": Table({**fresh, "row": np.arange(count)})},
        )["h"].astype(np.uint64)
        limits, start, end = "", None, None
        if "time" in names:
            start, end = int(fresh["time"].min()), int(fresh["time"].max()) + 1
            limits = f" AND time >= {start} AND time < {end}"
        node = self.node.replace("'", "''")
        there = self._trial.sql(
            f"SELECT {key} AS h, count(*) AS n FROM {table} WHERE node = '{node}'{limits} GROUP BY h",  # noqa: S608
            start_ns=start,
            end_ns=end,
        )
        stored = dict(zip(there["h"].astype(np.uint64).tolist(), there["n"].tolist(), strict=True))
        number = _occurrence(hashes)
        for batch in self._seen[table]:
            number += batch.searchsorted(hashes, side="right") - batch.searchsorted(hashes, side="left")
        self._seen[table].append(np.sort(hashes))
        held = np.fromiter((stored.get(h, 0) for h in hashes.tolist()), np.int64, count)
        lacking: NDArray[np.bool_] = number >= held
        return lacking


def _comparable(name: str, kind: str) -> str:
    """Return the SQL for a column so that a row has one hash, whatever type it is kept as."""
    wide = "DOUBLE" if kind in ("DOUBLE", "FLOAT") else "VARCHAR" if kind == "VARCHAR" else "BIGINT"
    return f"CAST({name} AS {wide})"


def _occurrence(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return for each value how many equal ones come before it."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    at = np.arange(len(ordered))
    number = np.empty(len(ordered), np.int64)
    number[order] = at - np.maximum.accumulate(np.where(first, at, 0))
    return number


def _plain(column: Any) -> NDArray[Any]:
    if isinstance(column, tuple):
        codes, values = column
        return np.array(values, object)[np.asarray(codes, np.int64)]
    array = np.asarray(column)
    return array.astype(object) if array.dtype.kind == "U" else array


def _where(column: Any, mask: NDArray[np.bool_]) -> Any:
    if isinstance(column, tuple):
        return np.asarray(column[0])[mask], column[1]
    if isinstance(column, np.ndarray):
        return column[mask]
    return [one for one, wanted in zip(column, mask.tolist(), strict=True) if wanted]
