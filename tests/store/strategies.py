"""Random rows of every table, made from the schema, and ways to compare tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from holter.schema.table import Table
from holter.schema.tables import TABLES
from holter.store import job
from holter.store.job import JobFolder
from holter.store.writer import Writer

_INTEGERS = {"BIGINT": 2**63 - 1, "INTEGER": 2**31 - 1, "SMALLINT": 2**15 - 1}
_TEXT = st.text(max_size=12).map(lambda t: t.encode("utf-8", "replace").decode())
_WORDS = st.sampled_from(["forward", "", "O'Hara; DROP", 'a"b', "größe", "\x00", "gpu0"])


def values(type_: str) -> st.SearchStrategy[Any]:
    if type_ in ("DOUBLE", "FLOAT"):
        return st.floats(allow_nan=True, allow_infinity=True, width=32 if type_ == "FLOAT" else 64)
    if type_ == "VARCHAR":
        return _WORDS | _TEXT
    return st.integers(-_INTEGERS[type_] - 1, _INTEGERS[type_])


def rows(table: str, *, max_size: int = 40) -> st.SearchStrategy[list[dict[str, Any]]]:
    columns = {column.name: values(column.type) for column in TABLES[table].columns}
    if table == "samples":  # fractions of readings are kept to the precision of a 32-bit float
        columns["value"] = st.floats(width=32)
    return st.lists(st.fixed_dictionaries(columns), max_size=max_size)


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def bag(table: Table) -> list[tuple[str, ...]]:
    """The rows in an order of their own, comparable although NaN is not equal to itself."""
    return sorted(tuple(repr(value) for value in row.values()) for row in table.to_rows())


def new_job(where: Path, name: str = "job") -> JobFolder:
    return job.create(str(where), name, command=["true"], interval_ms=500, rules=[], now_ns=1)


def write(folder: JobFolder, table: str, pieces: list[list[dict[str, Any]]], node: str = "n0") -> Table:
    """Write each piece of rows to its own file; returns what must be read."""
    writer = Writer(folder, node)
    for piece in pieces:
        writer.append(table, columns(piece))
        assert writer.flush(), writer.fault
    assert writer.close()
    every = [{**row, "node": node} for piece in pieces for row in piece]
    return Table.of(table, every)


def numbered(first: int, count: int) -> list[dict[str, Any]]:
    """Scalars whose step tells them apart."""
    return [
        {"time": 1000 * n, "rank": 0, "step": n, "mode": "train", "name": "loss", "value": float(n)}
        for n in range(first, first + count)
    ]
