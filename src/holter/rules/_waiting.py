"""Rows that wait in a rule's state for the rest of their step, as JSON can hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def kept(rows: Table) -> dict[str, Any]:
    """Return columns as lists, those of one value as that value alone: most are, and all are read back."""
    columns = {name: _value(column) for name, column in rows.columns.items()} if rows.rows else {}
    return {"rows": rows.rows, "columns": columns}


def restored(waiting: Mapping[str, Any] | None, like: Table) -> Table:
    """Return the rows that waited, with the columns and types of a table."""
    if not waiting or not waiting["rows"]:
        return like.where(slice(0, 0))
    count, columns = waiting["rows"], waiting["columns"]
    return Table({name: _column(columns[name], count, like[name].dtype) for name in like.names})


def column(waiting: Mapping[str, Any] | None, name: str, dtype: Any) -> NDArray[Any]:
    """Return one column of the rows that wait."""
    if not waiting or not waiting["rows"]:
        return np.empty(0, dtype=dtype)
    return _column(waiting["columns"][name], waiting["rows"], dtype)


def _value(values: NDArray[Any]) -> Any:
    # As bits: NaN is unlike itself, and 0.0 like -0.0.
    bits = values.view(f"i{values.itemsize}") if values.dtype.kind == "f" else values
    alike = bool((bits == bits[0]).all())
    return values[:1].tolist()[0] if alike else values.tolist()


def _column(given: Any, count: int, dtype: Any) -> NDArray[Any]:
    return np.array(given, dtype=dtype) if isinstance(given, list) else np.full(count, given, dtype=dtype)
