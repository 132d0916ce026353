"""Collects rows for a file: accepts columns of any kind, keeps text as codes, and sorts by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from holter.schema.table import NameCodes, Table
from holter.schema.tables import TABLES

Column = Sequence[Any] | NDArray[Any] | tuple[NDArray[Any], Sequence[str]]
"""A column to write: an array or a sequence, or for text a pair `(codes, values)`."""
Columns = Mapping[str, Column]

SERIES: dict[str, tuple[int, tuple[str, ...]]] = {
    "samples": (600 * 10**9, ("metric", "device")),
    "tensors": (3600 * 10**9, ("name", "rank")),
    "tensor_values": (3600 * 10**9, ("name", "kind", "rank")),
    "tiles": (2**63 - 1, ("level",)),
}
"""Tables sorted series by series within a stretch of time: its nanoseconds, and what makes a series.

That halves what samples take, and makes one series quicker to read. The others are sorted by time."""


class Batch:
    """Rows of one table that wait to be written.

    Text is kept as codes of its distinct values, because nine million spans have a few hundred names.
    """

    def __init__(self, table: str) -> None:
        self.schema = TABLES[table]
        self.rows = 0
        self._chunks: dict[str, list[NDArray[Any]]] = {c.name: [] for c in self.schema.columns}
        self._codes = {c.name: NameCodes() for c in self.schema.columns if c.type == "VARCHAR"}

    def append(self, columns: Columns, node: str) -> int:
        """Take rows in; returns how many.

        Raises:
            KeyError: A column that the table does not have.
            ValueError: Columns of unequal length, values of the wrong kind, or rows of another node.
        """
        lengths = {name: _length(column) for name, column in columns.items()}
        rows = next(iter(lengths.values()), 0)
        if any(length != rows for length in lengths.values()):
            raise ValueError(f"columns of {self.schema.name!r} differ in length: {lengths}")
        for name in columns:
            if name != "node":
                self.schema.column(name)
        if "node" in columns and (other := set(columns["node"]) - {node}):
            raise ValueError(f"rows of node {sorted(other)} given to the writer of node {node!r}")
        if rows == 0:
            return 0
        # All is converted before anything is kept, so that a bad column leaves no half rows.
        taken = {c.name: self._taken(c.name, columns.get(c.name), rows) for c in self.schema.columns}
        for name, chunk in taken.items():
            self._chunks[name].append(chunk)
        self.rows += rows
        return rows

    def _taken(self, name: str, column: Column | None, rows: int) -> NDArray[Any]:
        default = _NEUTRAL[self.schema.name][name]
        if name in self._codes:
            return self._coded(name, [""] * rows if column is None else column)
        if column is None:
            return np.full(rows, default[0], dtype=default.dtype)
        array = np.asarray(column)
        if array.dtype.kind not in "iufb":
            # None stands for an absent number; only a column with a fraction can say so.
            array = np.array([default[0] if v is None else v for v in column])
        converted = array.astype(default.dtype, copy=True)
        if default.dtype.kind == "i" and array.dtype.kind != "b" and not np.array_equal(converted, array):
            raise ValueError(
                f"column {name!r} of {self.schema.name!r} holds values that are no {default.dtype}"
            )
        return converted

    def _coded(self, name: str, column: Column) -> NDArray[Any]:
        known = self._codes[name]
        if is_pair(column):
            codes, values = np.asarray(column[0]), column[1]
            if len(codes) and not 0 <= (low := codes.min()) <= (high := codes.max()) < len(values):
                raise ValueError(
                    f"column {name!r}: codes reach from {low} to {high}, of {len(values)} values"
                )
            used = np.zeros(len(values), dtype=bool)
            used[codes] = True
            own = np.zeros(len(values), dtype=np.int32)
            for code in np.flatnonzero(used).tolist():
                own[code] = known[_text(values[code])]
            mapped: NDArray[Any] = own[codes]
            return mapped
        return known.codes(map(_text, column), np.int32)

    def forget(self, rows: int) -> None:
        """Drop the first rows: they are stored."""
        self._chunks = {name: [np.concatenate(chunks)[rows:]] for name, chunks in self._chunks.items()}
        self.rows -= rows

    def ordered(self) -> tuple[dict[str, NDArray[Any]], dict[str, list[str]]]:
        """Return the rows as a file holds them (text as codes), and the values of the codes."""
        columns = {name: np.concatenate(chunks) for name, chunks in self._chunks.items()}
        time = columns["time"]
        order = None
        if self.schema.name in SERIES:
            stretch, series = SERIES[self.schema.name]
            order = np.lexsort([time, *(columns[name] for name in reversed(series)), time // stretch])
            if self.schema.name == "samples":
                columns["value"] = _rounded(columns["value"])
        elif np.any(time[1:] < time[:-1]):
            order = np.argsort(time, kind="stable")
        if order is not None:
            columns = {name: column[order] for name, column in columns.items()}
        return columns, {name: list(known) for name, known in self._codes.items()}


def _rounded(values: NDArray[Any]) -> NDArray[Any]:
    """Round fractions to 24 significant bits, far below what any source resolves; whole numbers stay."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(np.float32).astype(np.float64)
    return np.where(values == np.rint(values), values, rounded)


def _text(value: Any) -> str:
    """Return text that can be stored: half characters, as in odd file names, are replaced."""
    text = "" if value is None else str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def is_pair(column: Column) -> TypeGuard[tuple[NDArray[Any], Sequence[str]]]:
    """Return whether a column is text as codes and their values."""
    return isinstance(column, tuple) and len(column) == 2 and not isinstance(column[0], str)


def _length(column: Column) -> int:
    return len(column[0] if is_pair(column) else column)


def _neutral(table: str) -> dict[str, NDArray[Any]]:
    return dict(Table.of(table, [{}]).columns)


_NEUTRAL: dict[str, dict[str, NDArray[Any]]] = {table: _neutral(table) for table in TABLES}
"""For each column its default, as an array of one, which has the column's dtype."""
