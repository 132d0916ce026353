"""Reads and writes Parquet files with DuckDB, and defines the metadata in their footers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.schema.tables import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from holter.schema.columns import TableSchema

BATCH = "batch"
"""Column of every file: in a compacted one the number of the file that each row came from, else null."""

ROW_GROUP = 122_880
_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
}
"""Nothing is ever downloaded."""


def connect(*, threads: int | None = None, memory: str | None = None) -> Any:
    """Open an in-memory DuckDB. It is imported here, because listing jobs does not need it."""
    import duckdb

    config: dict[str, Any] = dict(_SETTINGS)
    if threads is not None:
        config["threads"] = str(threads)
    if memory is not None:
        config["memory_limit"] = memory
    return duckdb.connect(":memory:", config=config)


def confine(connection: Any, *folders: Path) -> None:
    """Restrict queries to some folders, because queries may come from anywhere."""
    if any(pattern(folder) != str(folder) for folder in folders):
        return  # DuckDB would take the wildcards of such a path for others' files, and refuse all
    listed = ", ".join(literal(f"{folder}/") for folder in folders)
    connection.execute(f"SET allowed_directories = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def errors() -> type[Exception]:
    """Return the class of DuckDB's exceptions."""
    import duckdb

    return duckdb.Error


def literal(text: str) -> str:
    """Quote text for SQL."""
    return "'" + text.replace("'", "''") + "'"


def literals(texts: Iterable[str]) -> str:
    """Quote texts for SQL, as the inside of a list."""
    return ", ".join(map(literal, texts))


def name(identifier: str) -> str:
    """Quote an identifier for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def pattern(path: Path) -> str:
    """Return a path for DuckDB, with its wildcards `*`, `?` and `[` escaped."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))


def footer(table: TableSchema, node: str, rows: int, t_min: int, t_max: int) -> dict[str, str]:
    """Return the metadata of a file's footer."""
    return {
        "holter.schema": str(SCHEMA_VERSION),
        "holter.table": table.name,
        "holter.node": node,
        "holter.rows": str(rows),
        "holter.t_min": str(t_min),
        "holter.t_max": str(t_max),
    }


def copy(
    connection: Any, query: str, path: Path, says: Mapping[str, str], parameters: Mapping[str, Any]
) -> None:
    """Write the result of a query into a draft, which readers do not see."""
    metadata = ", ".join(f"{literal(key)}: {literal(value)}" for key, value in says.items())
    connection.execute(
        f"COPY ({query}) TO {literal(str(path))} (FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, "
        f"ROW_GROUP_SIZE {ROW_GROUP}, USE_TMP_FILE false, KV_METADATA {{{metadata}}})",
        dict(parameters),
    )
