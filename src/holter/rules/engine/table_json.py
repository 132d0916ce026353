"""Tables as JSON, for rows that wait in a rule's state for the rest of their step."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from holter.schema.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

State = dict[str, Any]
"""What a rule remembers between windows; it holds JSON values only."""


class TableJson(TypedDict):
    """A table in a rule's state."""

    rows: int
    columns: dict[str, Any]


NO_ROWS = TableJson(rows=0, columns={})


def to_json(rows: Table) -> TableJson:
    """Return a table as JSON: one value where all rows are equal, numbers as base64, texts as a list.

    Every evaluation writes and reads them, and lists of numbers take ten times as long.
    """
    if not rows.rows:
        return NO_ROWS
    return {"rows": rows.rows, "columns": {name: _written(column) for name, column in rows.columns.items()}}


def from_json(waiting: TableJson | None, like: Table) -> Table:
    """Return the rows of `to_json`, with the columns and types of another table."""
    if not waiting or not waiting["rows"]:
        return like.where(slice(0, 0))
    return Table({name: column(waiting, name, like[name].dtype) for name in like.names})


def column(waiting: TableJson | None, name: str, dtype: Any) -> NDArray[Any]:
    """Return one column of the rows of `to_json`."""
    if not waiting or not waiting["rows"]:
        return np.empty(0, dtype=dtype)
    given = waiting["columns"][name]
    if isinstance(given, dict):
        return np.frombuffer(base64.b64decode(given["bytes"]), dtype=given["type"]).astype(dtype, copy=False)
    return np.array(given, dtype) if isinstance(given, list) else np.full(waiting["rows"], given, dtype)


def _written(values: NDArray[Any]) -> Any:
    if values.dtype == object:
        texts = values.tolist()
        return texts[0] if texts.count(texts[0]) == len(texts) else texts
    # Bits are compared, because NaN differs from itself and 0.0 equals -0.0.
    bits = values.view(f"i{values.itemsize}")
    if (bits == bits[0]).all():
        return values[:1].tolist()[0]
    return {"type": values.dtype.str, "bytes": base64.b64encode(values.tobytes()).decode("ascii")}
