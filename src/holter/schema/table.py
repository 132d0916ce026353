"""A table in memory: named numpy columns of one length. The plain value between reading and judging.

Imports numpy, so nothing of the recorder may import this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

_DTYPES: dict[str, Any] = {
    "BIGINT": np.int64,
    "INTEGER": np.int32,
    "SMALLINT": np.int16,
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
    "VARCHAR": object,
}


class Table:
    """Columns of equal length, never changed in place. An absent number is NaN."""

    __slots__ = ("columns",)

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in length: {lengths}")
        self.columns = dict(columns)

    @classmethod
    def empty(cls, table: str) -> Table:
        """Return table `table` of the schema with no rows; it has the column `node` too."""
        return cls.of(table, [])

    @classmethod
    def of(cls, table: str, rows: Iterable[Mapping[str, Any]]) -> Table:
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
    def concat(cls, tables: Sequence[Table]) -> Table:
        """Put tables with the same columns one after another; raises `ValueError` for an empty list."""
        if not tables:
            raise ValueError("nothing to concatenate")
        names = tables[0].columns
        return cls({name: np.concatenate([t.columns[name] for t in tables]) for name in names})

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def where(self, mask: NDArray[Any]) -> Table:
        """Keep the rows that a boolean mask or an array of indices selects."""
        return Table({name: column[mask] for name, column in self.columns.items()})

    def sorted(self, *by: str) -> Table:
        """Sort by columns, the first one first; stable."""
        return self.where(np.lexsort([self.columns[name] for name in reversed(by)]))

    def to_rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as plain Python values."""
        lists = {name: column.tolist() for name, column in self.columns.items()}
        for i in range(self.rows):
            yield {name: values[i] for name, values in lists.items()}

    def __repr__(self) -> str:
        return f"Table({self.rows} rows: {', '.join(self.columns)})"


def _default(name: str, type_: str) -> Any:
    if type_ in ("FLOAT", "DOUBLE"):
        return float("nan")
    if type_ == "VARCHAR":
        return ""
    return -1 if name in ("rank", "worker", "step") else 0
