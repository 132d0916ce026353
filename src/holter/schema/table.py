"""A table in memory: named numpy columns of one length. The plain value between reading and judging.

Imports numpy, so nothing of the recorder may import this module.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from holter.schema.record import MAX_STEPS_AT_ONCE
from holter.schema.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

_DTYPES: dict[str, type] = {
    "BIGINT": np.int64,
    "INTEGER": np.int32,
    "SMALLINT": np.int16,
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
    "VARCHAR": object,
}
Row = dict[str, Any]
"""One row of a table as plain values, by the names of the columns."""

T = TypeVar("T", bound=Hashable)


class Codes(dict[T, int]):
    """Numbers distinct values in the order in which they are first asked for."""

    def __missing__(self, value: T) -> int:
        number = self[value] = len(self)
        return number

    def codes(self, values: Iterable[T] | NDArray[Any], dtype: Any = np.int64) -> NDArray[Any]:
        """Return the number of each value."""
        if isinstance(values, np.ndarray) and repeats(values):
            return np.full(len(values), self[values[:1].tolist()[0]], dtype)
        plain = values.tolist() if isinstance(values, np.ndarray) else values
        return np.fromiter(map(self.__getitem__, plain), dtype)


NameCodes = Codes[str]


class Table:
    """Columns of equal length, never changed in place. An absent number is NaN.

    A selection of rows copies a column when it is first asked for: a rule asks for few of many.
    """

    __slots__ = ("_coded", "_columns", "_of", "_which", "rows")

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._columns = dict(columns)
        self._coded: dict[str, tuple[NDArray[np.int64], tuple[str, ...]]] = {}
        self._of: Table | None = None
        self._which: NDArray[Any] | slice | None = None
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in length: {lengths}")
        self.rows: int = next(iter(lengths.values()), 0)
        """Number of rows."""

    @classmethod
    def empty(cls, table: str) -> Table:
        """Return table `table` of the schema with no rows; it has the column `node` too."""
        if table not in _EMPTY:
            _EMPTY[table] = cls.of(table, [])
        return cls(_EMPTY[table].columns)

    @classmethod
    def of(cls, table: str, rows: Iterable[Mapping[str, object]]) -> Table:
        """Build table `table` from rows given as mappings; absent values take a neutral default.

        Neutral: NaN for numbers with a fraction, -1 for rank, worker and step, 0 and "" otherwise.
        """
        listed = list(rows)
        columns: dict[str, NDArray[Any]] = {}
        for column in TABLES[table].columns:
            default = _default(column.name, column.type)
            values = [row.get(column.name, default) for row in listed]
            columns[column.name] = np.array(values, dtype=_DTYPES[column.type])
        columns["node"] = np.array([row.get("node", "") for row in listed], dtype=object)
        return cls(columns)

    @classmethod
    def of_tuples(cls, types: Mapping[str, type], rows: Sequence[Sequence[object]]) -> Table:
        """Build a table of no schema from rows; `types` names the columns and their types."""
        columns = zip(*rows, strict=True) if rows else [()] * len(types)
        named = zip(types.items(), columns, strict=True)
        return cls({name: np.array(column, type_) for (name, type_), column in named})

    @classmethod
    def made_of(cls, rows: Sequence[Mapping[str, object]]) -> Table:
        """Build a table of no schema from mappings; the first one names the columns, and texts are objects."""
        columns: dict[str, NDArray[Any]] = {}
        for name in rows[0] if rows else ():
            values = [row.get(name) for row in rows]
            plain = all(isinstance(value, int | float) for value in values)
            columns[name] = np.array(values) if plain else objects(values)
        return cls(columns)

    @classmethod
    def concat(cls, tables: Sequence[Table]) -> Table:
        """Put tables with the same columns one after another; raises `ValueError` for an empty list."""
        if not tables:
            raise ValueError("nothing to concatenate")
        if len(tables) == 1:
            return tables[0]
        return cls({name: _joined([table[name] for table in tables]) for name in tables[0].names})

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns by name."""
        if self._of is not None:
            self._columns = {name: self[name] for name in self._of.names}
            self._of = self._which = None  # what was selected from need not be kept any longer
        return self._columns

    @property
    def names(self) -> Collection[str]:
        """Names of the columns, in order."""
        return self._columns.keys() if self._of is None else self._of.names

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, name: str) -> NDArray[Any]:
        column = self._columns.get(name)
        if column is None:
            if self._of is None or self._which is None:
                raise KeyError(name)
            column = self._of[name]
            # Some rows of a column that repeats take no memory either.
            column = np.broadcast_to(column[:1], self.rows) if repeats(column) else column[self._which]
            self._columns[name] = column
        return column

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def where(self, mask: NDArray[Any] | slice) -> Table:
        """Keep the rows that a boolean mask, an array of indices, or a slice selects."""
        chosen = Table.__new__(Table)
        chosen._columns, chosen._coded, chosen._of = {}, {}, self
        if isinstance(mask, slice):
            chosen._which, chosen.rows = mask, len(range(*mask.indices(self.rows)))
            return chosen
        which = np.asarray(mask)
        if which.dtype == np.bool_:
            if len(which) != self.rows:
                raise IndexError(f"a mask of {len(which)} for {self.rows} rows")
            which = which.nonzero()[0]
        elif not len(which):
            which = which.astype(np.int64)  # an empty list has no type
        chosen._which, chosen.rows = which, len(which)
        return chosen

    def coded(self, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return a column of text as numbers of its distinct texts, and these; computed once."""
        if name not in self._coded:
            known = NameCodes()
            self._coded[name] = known.codes(self[name]), tuple(known)
        return self._coded[name]

    def sorted(self, *by: str) -> Table:
        """Sort by columns, the first one first; stable."""
        first = self[by[0]]
        if np.all(first[1:] > first[:-1]):
            return self  # as rows in the order of time are
        return self.where(np.lexsort([self[name] for name in reversed(by)]))

    def to_rows(self) -> Iterator[Row]:
        """Yield the rows as plain Python values."""
        columns = self.columns
        for values in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield dict(zip(columns, values, strict=True))

    def __repr__(self) -> str:
        return f"Table({self.rows} rows: {', '.join(self.names)})"


Detail = dict[str, Any]
"""The detail of an event; its keys depend on the kind of the event."""


def detail_of(text: str) -> Detail:
    """Return the detail of an event from its column; nothing for a text that is no JSON object."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def repeated(text: str, rows: int) -> NDArray[Any]:
    """Return a column of one text, which takes no memory: each row is the same place."""
    return np.broadcast_to(np.array(text, object), rows)


def repeats(column: NDArray[Any]) -> bool:
    """Return whether a column is known to hold one value only; it takes no memory."""
    return column.strides == (0,) and len(column) > 0


def _joined(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    filled = [column for column in columns if len(column)]
    # A few new rows after many equal ones are looked at: mostly they are equal, too.
    if filled and repeats(filled[0]) and all((column == filled[0][0]).all() for column in filled):
        return np.broadcast_to(filled[0][:1], sum(map(len, filled)))
    return np.concatenate(columns)


def objects(values: Collection[object]) -> NDArray[Any]:
    """Return a column of objects, such as texts."""
    column = np.empty(len(values), object)
    column[:] = list(values)
    return column


_EMPTY: dict[str, Table] = {}


def _default(name: str, type_: str) -> Any:
    if type_ in ("FLOAT", "DOUBLE"):
        return float("nan")
    if type_ == "VARCHAR":
        return ""
    return -1 if name in ("rank", "worker", "step") else 0


def steps_at_once(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the number of steps that each STEP span stands for, from the values of such spans."""
    return np.clip(np.nan_to_num(values, nan=1.0), 1, MAX_STEPS_AT_ONCE).astype(np.int64)
