"""Tables and documents for users: convert to pandas, Polars, Arrow or plain values; show in notebooks."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.schema.table import Table

_SHOWN_ROWS = 10


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
        """Return a pandas DataFrame; raises `ImportError` when pandas is not installed."""
        return optional("pandas").DataFrame(self.table.columns)

    def to_arrow(self) -> Any:
        """Return a pyarrow Table; raises `ImportError` when pyarrow is not installed."""
        return optional("pyarrow").table(self.table.columns)

    def to_polars(self) -> Any:
        """Return a Polars DataFrame; raises `ImportError` when polars is not installed."""
        polars = optional("polars")
        # numpy keeps texts as objects, which Polars would not read as texts.
        return polars.DataFrame(
            {name: c.tolist() if c.dtype == object else c for name, c in self.table.columns.items()}
        )

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
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row.values()) + "</tr>"
            for row in few.to_rows()
        )
        more = f"<p>{table.rows:,} rows, {min(table.rows, _SHOWN_ROWS)} shown</p>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


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
