"""Tables and documents for users: convert to pandas, Polars, Arrow or plain values; show in notebooks."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.schema.table import Table

_SHOWN_ROWS = 10
_MOMENTS = ("time", "begin", "start", "end", "created")
_LEAST_MOMENT = 10**18
"""Columns with these names and values above this hold moments: nanoseconds since the epoch, after 2001."""


def optional(name: str) -> Any:
    """Import an optional package; raises `ImportError` that says how to install it."""
    try:
        return import_module(name)
    except ImportError as missing:
        raise ImportError(
            f"this needs {name}, which is not installed (pip install {name}); `.to_rows()` does not"
        ) from missing


class Rows:
    """A table that is already read."""

    def __init__(self, table: Table) -> None:
        self._table = table

    @property
    def table(self) -> Table:
        """The rows as named numpy columns."""
        return self._table

    def to_rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as plain Python values."""
        return self.table.to_rows()

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame; moments are `datetime64[ns, UTC]`.

        Raises `ImportError` when pandas is not installed.
        """
        pandas = optional("pandas")
        found = pandas.DataFrame(self.table.columns)
        for name in self._moments():
            found[name] = pandas.to_datetime(found[name], unit="ns", utc=True)
        return found

    def to_arrow(self) -> Any:
        """Return a pyarrow Table; moments are `timestamp[ns, UTC]`.

        Raises `ImportError` when pyarrow is not installed.
        """
        arrow = optional("pyarrow")
        moments = dict.fromkeys(self._moments(), arrow.timestamp("ns", "UTC"))
        columns = self.table.columns
        return arrow.table({name: arrow.array(c, moments.get(name)) for name, c in columns.items()})

    def to_polars(self) -> Any:
        """Return a Polars DataFrame; moments are `Datetime("ns", "UTC")`.

        Raises `ImportError` when polars is not installed.
        """
        polars = optional("polars")
        # numpy keeps texts as objects, which Polars would not read as texts.
        found = polars.DataFrame(
            {name: c.tolist() if c.dtype == object else c for name, c in self.table.columns.items()}
        )
        kind = polars.Datetime("ns", "UTC")
        return found.with_columns(polars.col(name).cast(kind) for name in self._moments())

    def _moments(self) -> list[str]:
        """Return the columns that hold moments."""
        return [
            name
            for name, column in self.table.columns.items()
            if name in _MOMENTS and column.dtype.kind == "i" and len(column) and column.min() > _LEAST_MOMENT
        ]

    def __len__(self) -> int:
        return self.table.rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.to_rows()

    def __repr__(self) -> str:
        return f"Rows({self.table.rows}: {', '.join(self.table.columns)})"

    def _repr_html_(self) -> str:
        import numpy as np

        table = self.table
        head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
        few = table.where(np.arange(min(table.rows, _SHOWN_ROWS)))
        moments = self._moments()
        body = "".join(
            "<tr>"
            + "".join(f"<td>{escape(_shown(value, name in moments))}</td>" for name, value in row.items())
            + "</tr>"
            for row in few.to_rows()
        )
        more = f"<p>{table.rows:,} rows, {min(table.rows, _SHOWN_ROWS)} shown</p>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(value: Any, moment: bool) -> str:
    """Return a value of a table for people."""
    if moment:
        at = datetime.fromtimestamp(value // 10**9, UTC)
        return f"{at:%Y-%m-%d %H:%M:%S}.{value % 10**9 // 1000:06d}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Document(dict[str, Any]):
    """A JSON document that a notebook shows as nested tables."""

    def _repr_html_(self) -> str:
        return _html(dict(self))


def _html(value: Any) -> str:
    if isinstance(value, dict):
        rows = (
            f"<tr><th>{escape(str(key))}</th><td>{_html(entry)}</td></tr>" for key, entry in value.items()
        )
        return f"<table>{''.join(rows)}</table>"
    if isinstance(value, list):
        return "<br>".join(map(_html, value)) if value else "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else escape(str(value))
