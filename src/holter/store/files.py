"""Lists and checks the data files of a job, names damaged ones, and writes the queries that read them."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from holter.schema.tables import SCHEMA_VERSION
from holter.store.layout import DataFileName, current, parse_part
from holter.store.parquet import queries as parquet
from holter.store.parquet.queries import BATCH

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from holter.schema.columns import TableSchema
    from holter.store.clocks import ClockCorrection
    from holter.store.place import Entry, Place


class Vanished(Exception):
    """A listed file is gone, for example after a compaction: list again."""


@dataclass(frozen=True)
class DataFile:
    """A valid data file with the facts of its name and its footer."""

    part: DataFileName
    entry: Entry
    path: Path
    rows: int
    says: dict[str, str] = field(repr=False, hash=False, compare=False)
    """The metadata of its footer, by key."""
    columns: tuple[tuple[str, str], ...] = field(repr=False)
    """Names and Parquet types of its columns."""
    from_: int = 0
    """Only rows from this file number on count; another file holds the earlier ones."""

    @property
    def names(self) -> set[str]:
        """Names of its columns."""
        return {name for name, _ in self.columns}

    @property
    def newest(self) -> int:
        """The newest `time` of its rows."""
        return int(self.says.get("holter.t_max", 2**63 - 1))

    @property
    def numbers(self) -> range:
        """The file numbers whose rows count in this file."""
        return range(self.from_, self.part.last + 1)


class Catalog:
    """Lists the data files of one job and checks each file once; `skipped` names the damaged ones."""

    def __init__(self, place: Place, connection: Any) -> None:
        self.place = place
        self._checked: dict[Entry, DataFile | str] = {}
        self._skipped: dict[str, str] = {}
        self._connection = connection

    @property
    def skipped(self) -> list[dict[str, str]]:
        """Files that were left out, with the reason."""
        return [{"file": file, "why": why} for file, why in sorted(self._skipped.items())]

    def files(self, table: str) -> list[DataFile]:
        """List the valid files of a table in the order of their numbers. Raises `Vanished`."""
        listed: dict[str, Entry] = {}
        parts: list[DataFileName] = []
        for entry in self._entries(table):
            part = parse_part(entry.key)
            if part is None or entry.size < 0:
                why = "is a folder" if entry.size < 0 else "its name is not the name of a data file"
                self._skipped.setdefault(entry.key, why)
                continue
            parts.append(part)
            listed[entry.key] = entry
        while True:
            chosen = current(parts)
            unknown = [(p, listed[p.key]) for p, _ in chosen if listed[p.key] not in self._checked]
            if unknown:
                self._check(unknown, table)
            checked = [(self._checked[listed[p.key]], since) for p, since in chosen]
            if all(isinstance(file, DataFile) for file, _ in checked):
                return [replace(f, from_=since) for f, since in checked if isinstance(f, DataFile)]
            # A wide file that cannot be read must not hide the narrower ones.
            parts = [p for p in parts if not isinstance(self._checked.get(listed[p.key]), str)]

    def _entries(self, table: str) -> list[Entry]:
        """List until two listings are equal.

        A listing is not always a snapshot: it can miss a file that a compaction just wrote, and also the
        files that it replaced. These are deleted after the new file exists, so the next listing shows it.
        """
        entries = self.place.files(table)
        if len(entries) < self.place.lists_at_once:
            return entries
        for _ in range(10):
            again = self.place.files(table)
            if set(again) == set(entries):
                break
            entries = again
        return entries

    def _check(self, unknown: Sequence[tuple[DataFileName, Entry]], table: str) -> None:
        paths: dict[str, Path] = {}
        self.place.fetch([entry for _, entry in unknown])
        for part, entry in unknown:
            try:
                paths[part.key] = self.place.local(entry)
            except FileNotFoundError as error:
                raise Vanished(part.key) from error
            except OSError as error:
                self.bad(entry, self.place.reads_from / part.key, str(error.strerror or error))
        unknown = [(part, entry) for part, entry in unknown if part.key in paths]
        try:
            footers = self._footers(list(paths.values()))
        except (parquet.errors(), OSError):
            footers = {}
            for part, entry in unknown:
                path = paths[part.key]
                try:
                    footers.update(self._footers([path]))
                except (parquet.errors(), OSError) as error:
                    self.bad(entry, path, f"cannot be read: {first_line(error)}")
        for part, entry in unknown:
            if isinstance(self._checked.get(entry), str):
                continue
            says, columns = footers.get(str(paths[part.key]), ({}, ()))
            why = _foreign(says, table)
            if why is None and part.last > part.first and BATCH not in dict(columns):
                why = f"is of several files, but has no column {BATCH!r}"
            if why:
                self.bad(entry, paths[part.key], why)
                continue
            rows = int(says["holter.rows"])
            self._checked[entry] = DataFile(part, entry, paths[part.key], rows, says, columns, part.first)

    def is_good(self, file: DataFile) -> bool:
        """Return whether a file has been readable so far."""
        return not isinstance(self._checked.get(file.entry), str)

    def bad(self, entry: Entry, path: Path, why: str) -> None:
        """Leave a damaged file out from now on; raises `Vanished` when the file is gone."""
        if not os.path.lexists(path):
            self._checked.pop(entry, None)
            raise Vanished(entry.key)
        self._checked[entry] = why
        self._skipped[entry.key] = why

    def _footers(
        self, paths: Sequence[Path]
    ) -> dict[str, tuple[dict[str, str], tuple[tuple[str, str], ...]]]:
        given = {"files": [parquet.pattern(path) for path in paths]}
        cursor = self._connection.cursor()
        says: dict[str, dict[str, str]] = defaultdict(dict)
        columns: dict[str, list[tuple[str, str]]] = defaultdict(list)
        query = (
            "SELECT file_name, key, value, NULL FROM parquet_kv_metadata($files) UNION ALL "
            "SELECT file_name, NULL, name::BLOB, type FROM parquet_schema($files) WHERE type IS NOT NULL"
        )
        for file, key, value, type_ in cursor.execute(query, given).fetchall():
            if key is None:
                columns[file].append((_text(value), str(type_)))
            else:
                says[file][_text(key)] = _text(value)
        return {file: (says[file], tuple(columns[file])) for file in says}


def select(
    file: DataFile,
    table: TableSchema,
    files: str,
    *,
    extra: Sequence[str] = (),
    clock: ClockCorrection | None = None,
) -> str:
    """Return the query that reads files with the columns of `file` in the table's present form.

    Columns of a newer schema are left out, and columns that an older schema lacks are NULL. `clock` corrects
    the times of the node.
    """
    there = file.names
    if clock is not None and "time" in there:
        rest = select(file, table, files, extra=extra)
        return f"SELECT * REPLACE ({clock.sql('time')} AS time) FROM ({rest})"
    terms = [
        f"{parquet.name(c.name)}::{c.type} AS {parquet.name(c.name)}"
        if c.name in there
        else f"NULL::{c.type} AS {parquet.name(c.name)}"
        for c in table.columns
    ]
    node = f"{parquet.literal(file.part.node)} AS node"
    return f"SELECT {', '.join([*terms, node, *map(parquet.name, extra)])} FROM read_parquet({files})"


def _foreign(says: dict[str, str], table: str) -> str | None:
    version = says.get("holter.schema")
    if version is None:
        return "was not written by holter"
    if version.split(".")[0] != str(SCHEMA_VERSION):
        return f"has schema version {version}; this holter reads {SCHEMA_VERSION}"
    if says.get("holter.table") != table:
        return f"holds table {says.get('holter.table')!r}, not {table!r}"
    if not says.get("holter.rows", "").isdecimal():
        return "does not say how many rows it has"
    return None


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def first_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
