"""Read data files: each is checked before it counts, and a bad one costs only its own rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holter.schema.table import Table
from holter.schema.tables import SCHEMA_VERSION, TABLES, TableSchema
from holter.store import parquet
from holter.store.layout import Part, current, parse_part
from holter.store.place import Entry, Place

BATCH = "batch"
"""Column of compacted files only: the number of the file that each row came from."""

_MANY_TEXTS = 20_000
"""Up to so many distinct texts of a column are fetched as codes."""


class Vanished(Exception):
    """A file that was listed is gone, as after a compaction: list again."""


@dataclass(frozen=True)
class DataFile:
    """A data file that was found good: what its name and its footer say."""

    part: Part
    entry: Entry
    path: Path
    rows: int
    columns: tuple[tuple[str, str], ...] = field(repr=False)
    """Names and Parquet types of its columns, as in the file."""


class Reader:
    """Checks and reads the data files of one job. Remembers what it checked; `skipped` names the bad ones."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._checked: dict[Entry, DataFile | str] = {}
        self._skipped: dict[str, str] = {}
        self.connection = parquet.connect()

    @property
    def skipped(self) -> list[dict[str, str]]:
        """Files that were left out, and why."""
        return [{"file": file, "why": why} for file, why in sorted(self._skipped.items())]

    def files(self, table: str) -> list[DataFile]:
        """List the good files of a table that count now, in the order of their numbers.

        Raises:
            Vanished: A file went away in between; list again.
        """
        listed: dict[str, Entry] = {}
        parts: list[Part] = []
        for entry in self.place.files(table):
            part = parse_part(entry.key)
            if part is None or entry.size < 0:
                why = "is a folder" if entry.size < 0 else "its name is none of a data file"
                self._skipped.setdefault(entry.key, why)
                continue
            parts.append(part)
            listed[entry.key] = entry
        good, wide = self._good(parts, listed, table)
        # A file that holds others' rows but cannot be read must not hide them.
        while any(isinstance(self._checked.get(listed[part.key]), str) for part in wide):
            parts = [p for p in parts if not isinstance(self._checked.get(listed[p.key]), str)]
            good, wide = self._good(parts, listed, table)
        return good

    def _good(
        self, parts: Iterable[Part], listed: dict[str, Entry], table: str
    ) -> tuple[list[DataFile], list[Part]]:
        wanted = current(parts)
        unknown = [part for part in wanted if listed[part.key] not in self._checked]
        if unknown:
            self._check([(part, listed[part.key]) for part in unknown], table)
        checked = (self._checked[listed[part.key]] for part in wanted)
        return [c for c in checked if isinstance(c, DataFile)], [p for p in wanted if p.last > p.first]

    def _check(self, unknown: Sequence[tuple[Part, Entry]], table: str) -> None:
        paths: dict[str, Path] = {}
        for part, entry in unknown:
            try:
                paths[part.key] = self.place.local(entry)
            except FileNotFoundError as error:
                raise Vanished(part.key) from error
        try:
            footers = self._footers(list(paths.values()))
        except (parquet.errors(), OSError):
            footers = {}
            for part, entry in unknown:
                path = paths[part.key]
                try:
                    footers.update(self._footers([path]))
                except (parquet.errors(), OSError) as error:
                    self._bad(entry, path, f"cannot be read: {_first_line(error)}")
        for part, entry in unknown:
            if isinstance(self._checked.get(entry), str):
                continue
            says, columns = footers.get(str(paths[part.key]), ({}, ()))
            why = _foreign(says, table)
            if why:
                self._bad(entry, paths[part.key], why)
                continue
            rows = int(says.get("holter.rows", "0"))
            self._checked[entry] = DataFile(part, entry, paths[part.key], rows, columns)

    def _bad(self, entry: Entry, path: Path, why: str) -> None:
        if not path.exists():
            self._checked.pop(entry, None)
            raise Vanished(entry.key)
        self._checked[entry] = why
        self._skipped[entry.key] = why

    def _footers(
        self, paths: Sequence[Path]
    ) -> dict[str, tuple[dict[str, str], tuple[tuple[str, str], ...]]]:
        given = {"files": [parquet.pattern(path) for path in paths]}
        cursor = self.connection.cursor()
        says: dict[str, dict[str, str]] = defaultdict(dict)
        query = "SELECT file_name, key, value FROM parquet_kv_metadata($files)"
        for file, key, value in cursor.execute(query, given).fetchall():
            says[file][_text(key)] = _text(value)
        columns: dict[str, list[tuple[str, str]]] = defaultdict(list)
        query = "SELECT file_name, name, type FROM parquet_schema($files) WHERE type IS NOT NULL"
        for file, name, type_ in cursor.execute(query, given).fetchall():
            columns[file].append((name, str(type_)))
        return {file: (says[file], tuple(columns[file])) for file in says}

    def read(
        self,
        files: Sequence[DataFile],
        table: TableSchema,
        *,
        columns: Sequence[str] | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        where: str | None = None,
        unseen: dict[str, list[int]] | None = None,
    ) -> Table:
        """Read the rows of files into one table, in the order of time.

        Args:
            files: Good files, as `files` lists them.
            table: What they hold.
            columns: Columns to return, `node` among them; all by default.
            start_ns: Only rows with `time` at or after it.
            end_ns: Only rows with `time` before it.
            where: An SQL condition on the table's columns.
            unseen: For the keys of compacted files: only rows that came from these numbers.

        Raises:
            ValueError: The condition cannot be understood.
            Vanished: A file went away in between; list again.
        """
        wanted = list(columns) if columns is not None else [*(c.name for c in table.columns), "node"]
        for column in wanted:
            if column != "node":
                table.column(column)
        fetched = wanted if "time" in wanted else [*wanted, "time"]
        limits = []
        if start_ns is not None:
            limits.append(f"time >= {int(start_ns)}")
        if end_ns is not None:
            limits.append(f"time < {int(end_ns)}")
            files = [f for f in files if f.part.t0 == 0 or f.part.t0 < end_ns]
        groups: dict[Any, list[DataFile]] = defaultdict(list)
        for file in files:
            only = tuple(unseen[file.part.key]) if unseen and file.part.key in unseen else None
            groups[(file.part.node, file.columns, only)].append(file)
        found = [Table.empty(table.name)]
        for (_, _, only), members in groups.items():
            conditions = limits + ([f"{BATCH} IN ({', '.join(map(str, only))})"] if only is not None else [])
            found += self._group(members, table, fetched, conditions, where)
        found = [Table({name: part.columns[name] for name in fetched}) for part in found]
        whole = Table.concat(found) if len(found) > 1 else found[0]
        time = whole["time"]
        if len(found) > 2 and np.any(time[1:] < time[:-1]):
            whole = whole.where(np.argsort(time, kind="stable"))
        return Table({name: whole.columns[name] for name in wanted})

    def _group(
        self,
        files: Sequence[DataFile],
        table: TableSchema,
        columns: Sequence[str],
        conditions: Sequence[str],
        where: str | None,
    ) -> list[Table]:
        """Read files of one node with the same columns: at once, or when that fails one by one."""
        import duckdb

        try:
            return [self._query(files, table, columns, conditions, where)]
        except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
            raise ValueError(f"condition {where!r} on table {table.name!r}: {_first_line(error)}") from error
        except (duckdb.Error, OSError):
            found = []
        for file in files:
            try:
                found.append(self._query([file], table, columns, conditions, where))
            except (duckdb.Error, OSError) as error:
                self._bad(file.entry, file.path, f"cannot be read: {_first_line(error)}")
        return found

    def _query(
        self,
        files: Sequence[DataFile],
        table: TableSchema,
        columns: Sequence[str],
        conditions: Sequence[str],
        where: str | None,
    ) -> Table:
        cursor = self.connection.cursor()
        given = {"files": [parquet.pattern(file.path) for file in files]}
        source = select(files[0], table, "$files", extra=[BATCH] if BATCH in _names(files[0]) else [])
        limits = " AND ".join(conditions) or "true"
        terms: list[str] = []
        texts: dict[str, list[str]] = {}
        there = _names(files[0])
        for column in columns:
            quoted = parquet.name(column)
            known = None
            if (
                column in there
                and column != "node"
                and table.column(column).type == "VARCHAR"
                and column != "detail"
            ):
                query = f"SELECT DISTINCT {quoted} FROM ({source}) WHERE {limits} AND {quoted} IS NOT NULL"
                known = [row[0] for row in cursor.execute(query, given).fetchall()]
            if column == "node" or known == []:
                continue
            if known is not None and len(known) <= _MANY_TEXTS:
                texts[column] = known
                codes = f"ENUM({', '.join(parquet.literal(text) for text in known)})"
                terms.append(f"enum_code({quoted}::{codes}) AS {quoted}")
            else:
                terms.append(quoted)
        chosen = f"({limits}) AND ({where})" if where else limits
        query = f"SELECT {', '.join(terms) or 'time'} FROM ({source}) WHERE {chosen}"
        arrays = cursor.execute(query, given).fetchnumpy()
        rows = len(next(iter(arrays.values())))
        empty = Table.of(table.name, [{}])
        result: dict[str, NDArray[Any]] = {}
        for column in columns:
            default = empty[column]
            if column == "node":
                result[column] = np.full(rows, files[0].part.node, dtype=object)
            elif column not in arrays:
                result[column] = np.full(rows, default[0], dtype=default.dtype)
            elif column in texts:
                result[column] = _decoded(arrays[column], texts[column])
            else:
                filled = np.ma.filled(arrays[column], default[0])
                result[column] = np.asarray(filled, dtype=default.dtype)
        return Table(result)


def select(file: DataFile, table: TableSchema, files: str, *, extra: Sequence[str] = ()) -> str:
    """Write the query that brings files with the columns of `file` into the table's present form.

    Columns that the table does not have are left out (a newer schema), absent ones are NULL (an older one).
    """
    there = _names(file)
    terms = [
        f"{parquet.name(c.name)}::{c.type} AS {parquet.name(c.name)}"
        if c.name in there
        else f"NULL::{c.type} AS {parquet.name(c.name)}"
        for c in table.columns
    ]
    node = f"{parquet.literal(file.part.node)} AS node"
    return f"SELECT {', '.join([*terms, node, *map(parquet.name, extra)])} FROM read_parquet({files})"


def table_schema(name: str) -> TableSchema:
    """Return a table's schema; raises `KeyError` with the names that there are."""
    if name not in TABLES:
        raise KeyError(f"no table {name!r}; there are: {', '.join(TABLES)}")
    return TABLES[name]


def _decoded(codes: NDArray[Any], texts: Sequence[str]) -> NDArray[Any]:
    values = np.array([*texts, ""], dtype=object)
    if isinstance(codes, np.ma.MaskedArray) and np.ma.is_masked(codes):
        absent = np.ma.getmaskarray(codes)
        return values[np.where(absent, len(texts), codes.data.astype(np.int64))]
    return values[np.asarray(codes)]


def _names(file: DataFile) -> set[str]:
    return {name for name, _ in file.columns}


def _foreign(says: dict[str, str], table: str) -> str | None:
    version = says.get("holter.schema")
    if version is None:
        return "was not written by holter"
    if version.split(".")[0] != str(SCHEMA_VERSION):
        return f"has schema version {version}; this holter reads {SCHEMA_VERSION}"
    if says.get("holter.table") != table:
        return f"holds table {says.get('holter.table')!r}, not {table!r}"
    return None


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
