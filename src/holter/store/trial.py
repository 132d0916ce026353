"""Reads the tables of a job, running or finished, complete or damaged."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.table import Table
from holter.schema.tables import TABLES
from holter.store.files import DataFile, Vanished, select
from holter.store.parquet import queries as parquet
from holter.store.parquet.queries import BATCH
from holter.store.reader import Reader, retried, row_groups, table_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from holter.store.clocks import ClockCorrection
    from holter.store.documents import Document
    from holter.store.job import JobFolder


class Trial:
    """The tables of one job. Each read sees the files that are there when it is made."""

    def __init__(self, folder: JobFolder, *, threads: int | None = None) -> None:
        """Open a job; `threads` limits the reading threads on a machine that also trains."""
        self.folder = folder
        self._reader = Reader(folder.place, threads=threads)

    def correct(self, clocks: Mapping[str, ClockCorrection]) -> None:
        """Correct the times of nodes in all rows that are read from now on; the files stay as they are."""
        self._reader.clocks = dict(clocks)

    @property
    def manifest(self) -> Document:
        """The job's manifest as it is now."""
        return self.folder.manifest()

    @property
    def imported(self) -> Document:
        """The facts of imported files: `files`, `ranks` and `facts`; empty for other jobs."""
        return self.folder.manifest().get("imported") or {}

    @property
    def nodes(self) -> dict[str, Document]:
        """The facts of the job's nodes as they are now."""
        return self.folder.nodes()

    @property
    def skipped(self) -> list[dict[str, str]]:
        """Files and documents that could not be read so far, each with `file` and `why`."""
        damaged = [{"file": f.split(" ", 1)[0], "why": f.split(" ", 1)[1]} for f in self.folder.faults]
        return damaged + self._reader.catalog.skipped

    def table(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        where: str | None = None,
    ) -> Table:
        """Read a table in the order of time; a table without rows has all its columns.

        Args:
            name: Name of the table.
            columns: Columns to return, `node` among them; all by default.
            start_ns: Only rows with `time` at or after it, nanoseconds since the epoch.
            end_ns: Only rows with `time` before it.
            where: An SQL condition on the table's columns, as in `"phase = 'forward' AND rank = 0"`.

        Raises:
            KeyError: There is no such table or column.
            ValueError: The condition cannot be understood.
        """
        read = partial(self._reader.read, columns=columns, start_ns=start_ns, end_ns=end_ns, where=where)
        schema = table_schema(name)
        return retried(lambda: read(self._reader.files(name), schema))

    def sql(
        self,
        query: str,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
        more: Mapping[str, Table] | None = None,
    ) -> Table:
        """Run one SELECT over the job's tables, and over `more` tables by name. Absent numbers are NaN.

        Files that only hold rows outside of `start_ns` to `end_ns` are not opened; the query itself must
        limit the time too.

        Raises:
            ValueError: The query is invalid, or it is not a single SELECT.
        """
        import duckdb

        try:
            statements = self._reader.connection.extract_statements(query)
        except duckdb.Error as error:
            raise ValueError(f"query cannot be understood: {error}") from error
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise ValueError("one SELECT is expected, and nothing else")

        def run() -> Table:
            cursor = self._reader.connection.cursor()
            # Listing is expensive in an object store, so only tables that the query names are listed.
            named = [name for name in TABLES if name in query.lower()]
            views = {name: self.source(name, start_ns=start_ns, end_ns=end_ns) for name in named}
            started = False
            try:
                for name, view in views.items():
                    cursor.execute(f"CREATE OR REPLACE VIEW {name} AS {view}")
                for name, table in (more or {}).items():
                    cursor.register(name, dict(table.columns))
                started = True
                arrays = cursor.execute(query).fetchnumpy()
            except duckdb.Error as error:
                mistakes = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)
                if not (started and isinstance(error, mistakes)):
                    # Reading all finds the files that are damaged inside, or gone.
                    for name in named:
                        self._reader.read(self._reader.files(name), TABLES[name])
                    if views != {name: self.source(name, start_ns=start_ns, end_ns=end_ns) for name in named}:
                        raise Vanished(str(error)) from error
                raise ValueError(f"query failed: {error}") from error
            return Table({name: _plain(column) for name, column in arrays.items()})

        return retried(run)

    def rows(self, name: str) -> int:
        """Return how many rows a table has, as its files say; those that count twice are among them."""
        return sum(file.rows for file in self._reader.files(name))

    def newest(self, name: str) -> int | None:
        """Return the newest `time` of a table, as its files say, ns since the epoch; None without rows."""
        known = (file.newest for file in self._reader.files(name) if "holter.t_max" in file.says)
        return max(known, default=None)

    def oldest(self, name: str) -> int | None:
        """Return the oldest `time` of a table, as its files' names say; None without rows."""
        return min((file.part.t0 for file in self._reader.files(name) if file.rows), default=None)

    def groups(self, name: str) -> list[tuple[int, int, int]]:
        """Return first `time`, last `time` and number of rows of each group of rows in a table's files."""
        return retried(lambda: row_groups(self._reader.connection, self._reader.files(name)))

    def source(self, name: str, *, start_ns: int | None = None, end_ns: int | None = None) -> str:
        """Return the SQL that reads a table's present files on any connection."""
        groups: dict[Any, list[DataFile]] = defaultdict(list)
        for file in self._reader.files(name):
            reach_ns = self._reader.reach_ns(file)
            if (start_ns is not None and file.newest + reach_ns < start_ns) or (
                end_ns is not None and file.part.t0 - reach_ns >= end_ns and file.part.t0 > 0
            ):
                continue
            since = file.from_ if file.from_ > file.part.first else 0
            groups[(file.part.node, file.columns, since)].append(file)
        terms = []
        for (node, _, since), files in groups.items():
            paths = ", ".join(parquet.literal(parquet.pattern(file.path)) for file in files)
            query = select(files[0], TABLES[name], f"[{paths}]")
            query = f"{query} WHERE {BATCH} >= {since}" if since else query
            if (clock := self._reader.clocks.get(node)) is not None:
                query = f"SELECT * REPLACE ({clock.sql('time')} AS time) FROM ({query})"
            terms.append(query)
        return " UNION ALL ".join(terms) or empty_source(name)


def empty_source(name: str) -> str:
    """Return the SQL that reads a table without rows."""
    columns = ", ".join(f"NULL::{c.type} AS {parquet.name(c.name)}" for c in TABLES[name].columns)
    return f"SELECT {columns}, NULL::VARCHAR AS node WHERE false"


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    if not np.ma.is_masked(column):
        return np.ma.getdata(column)
    absent = np.ma.getmaskarray(column)
    plain: NDArray[Any] = np.array(np.ma.getdata(column))
    if plain.dtype.kind in "iub":
        plain = plain.astype(np.float64)
    if plain.dtype.kind in "fO":
        plain[absent] = np.nan if plain.dtype.kind == "f" else None
    return plain
