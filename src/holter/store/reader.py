"""Reads the rows of data files in one query; a damaged file costs only its own rows."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from holter.schema.table import Table, repeated
from holter.schema.tables import TABLES
from holter.store.files import Catalog, DataFile, Vanished, first_line, select
from holter.store.parquet import queries as parquet
from holter.store.parquet.queries import BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from holter.schema.columns import TableSchema
    from holter.store.clocks import ClockCorrection
    from holter.store.place import Place

T = TypeVar("T")

_MANY_TEXTS = 20_000
"""A column with at most this number of distinct texts is fetched as codes."""

_FEW_ROWS = 16_384
"""With fewer rows, to look for the distinct texts costs more than to fetch each text."""
_ATTEMPTS = 10
"""Attempts to list and read while compaction removes files."""


class _Selection(NamedTuple):
    table: TableSchema
    columns: Sequence[str]
    limits: str
    """SQL of our own."""
    where: str | None
    """SQL of the user."""


class Reader:
    """Reads the data files of one job."""

    def __init__(self, place: Place, *, threads: int | None = None) -> None:
        self.connection = parquet.connect(threads=threads)
        self.catalog = Catalog(place, self.connection)
        self.clocks: Mapping[str, ClockCorrection] = {}
        """Corrections of the times of nodes; times of other nodes are read as they were written."""
        parquet.confine(self.connection, place.reads_from)

    def files(self, table: str) -> list[DataFile]:
        """List the good files of a table that count now, in the order of their numbers."""
        return retried(lambda: self.catalog.files(table))

    def read(
        self,
        files: Sequence[DataFile],
        table: TableSchema,
        *,
        columns: Sequence[str] | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        where: str | None = None,
        unseen: Mapping[str, Collection[int]] | None = None,
    ) -> Table:
        """Read the rows of good files into one table, in the order of time; see `Trial.table`.

        `unseen` limits compacted files, by key, to the rows that came from files of these numbers.

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
            files = [f for f in files if f.newest + self.reach_ns(f) >= start_ns]
        if end_ns is not None:
            limits.append(f"time < {int(end_ns)}")
            files = [f for f in files if f.part.t0 == 0 or f.part.t0 - self.reach_ns(f) < end_ns]
        groups: dict[Any, list[DataFile]] = defaultdict(list)
        for file in files:
            only: tuple[int, ...] | None = None
            if unseen is not None and file.part.key in unseen:
                only = tuple(sorted(unseen[file.part.key]))
            elif file.from_ > file.part.first:
                only = tuple(file.numbers)
            groups[(file.part.node, file.columns, only)].append(file)
        found: list[Table] = []
        for (_, _, only), members in groups.items():
            conditions = limits + ([f"{BATCH} IN ({', '.join(map(str, only))})"] if only is not None else [])
            limit = " AND ".join(conditions) or "true"
            found += self._group(members, _Selection(table, fetched, limit, where))
        whole = found[0] if len(found) == 1 else Table.concat(found or [Table.empty(table.name)])
        time = whole["time"]
        if np.any(time[1:] < time[:-1]):
            whole = whole.where(np.argsort(time, kind="stable"))
        return Table({name: whole.columns[name] for name in wanted})

    def reach_ns(self, file: DataFile) -> int:
        """Return the most by which the correction of its node's clock moves a row of a file."""
        clock = self.clocks.get(file.part.node)
        return 0 if clock is None else clock.reach_ns

    def distinct(
        self,
        files: Sequence[DataFile],
        table: TableSchema,
        columns: Sequence[str],
        where: str | None = None,
    ) -> set[tuple[Any, ...]]:
        """Return the combinations of values in columns of files, also those of covered rows.

        `where` is an SQL condition of holter: its failure counts as a damaged file. Raises `Vanished`.
        """
        alike: dict[Any, list[DataFile]] = defaultdict(list)
        for file in files:
            alike[(file.part.node, file.columns)].append(file)
        ask = partial(self._distinct, table=table, columns=columns, where=where)
        return set().union(*(found for members in alike.values() for found in self._each(members, ask)))

    def _distinct(
        self, files: Sequence[DataFile], table: TableSchema, columns: Sequence[str], where: str | None
    ) -> set[tuple[Any, ...]]:
        terms = ", ".join(parquet.name(table.column(column).name) for column in columns)
        query = f"SELECT DISTINCT {terms} FROM ({select(files[0], table, '$files')}) WHERE {where or 'true'}"
        given = {"files": [parquet.pattern(file.path) for file in files]}
        return set(self.connection.cursor().execute(query, given).fetchall())

    def _each(self, files: Sequence[DataFile], ask: Callable[[Sequence[DataFile]], T]) -> list[T]:
        """Ask files of one node with the same columns at once, or one by one when one is damaged or gone."""
        import duckdb

        with contextlib.suppress(duckdb.Error, OSError):
            return [ask(files)]
        found = []
        for file in files:
            try:
                found.append(ask([file]))
            except (duckdb.Error, OSError) as error:
                self.catalog.bad(file.entry, file.path, f"cannot be read: {first_line(error)}")
        return found

    def _group(self, files: Sequence[DataFile], wanted: _Selection) -> list[Table]:
        import duckdb

        def ask(files: Sequence[DataFile]) -> Table:
            try:
                return self._query(files, wanted)
            except duckdb.Error as error:
                mistakes = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)
                without = wanted._replace(where=None)
                # A condition that fails on a readable file is wrong, too.
                if wanted.where is not None and (
                    isinstance(error, mistakes) or (len(files) == 1 and self._group(files, without))
                ):
                    text = f"condition {wanted.where!r} on table {wanted.table.name!r}: {first_line(error)}"
                    raise ValueError(text) from error
                raise

        return self._each(files, ask)

    def _query(self, files: Sequence[DataFile], wanted: _Selection) -> Table:
        table, columns, limits, where = wanted
        cursor = self.connection.cursor()
        given = {"files": [parquet.pattern(file.path) for file in files]}
        clock = self.clocks.get(files[0].part.node)
        extra = [BATCH] if BATCH in files[0].names else []
        source = select(files[0], table, "$files", extra=extra, clock=clock)
        terms: list[str] = []
        few = sum(file.rows for file in files) < _FEW_ROWS
        known = {} if few else self._texts(cursor, files[0], wanted, f"({source}) WHERE {limits}", given)
        same = {} if few else _same_numbers(cursor, given)
        texts: dict[str, list[str]] = {}
        for column in columns:
            quoted, found = parquet.name(column), known.get(column)
            if column == "node" or found == [] or (column in same and column != "time"):
                continue
            # A text with a NUL cannot stand in SQL.
            if found is not None and len(found) <= _MANY_TEXTS and "\x00" not in "".join(found):
                texts[column] = found
                codes = f"ENUM({', '.join(parquet.literal(text) for text in found)})"
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
                result[column] = repeated(files[0].part.node, rows)
            elif column not in arrays:
                value = default if column not in same else np.array([same[column]], default.dtype)
                result[column] = np.broadcast_to(value, rows)
            elif column in texts:
                result[column] = _decoded(arrays[column], texts[column])
            else:
                filled = np.ma.filled(arrays[column], default[0])
                result[column] = np.asarray(filled, dtype=default.dtype)
        return Table(result)

    def _texts(
        self, cursor: Any, file: DataFile, wanted: _Selection, source: str, given: dict[str, list[str]]
    ) -> dict[str, list[str]]:
        """Return the distinct texts of each column that may have few, all in one pass over the files."""
        asked = [
            column
            for column in wanted.columns
            if column in file.names
            and column not in ("node", "detail")
            and wanted.table.column(column).type == "VARCHAR"
        ]
        if not asked:
            return {}
        terms = ", ".join(f"list(DISTINCT {parquet.name(column)})" for column in asked)
        lists = cursor.execute(f"SELECT {terms} FROM {source}", given).fetchone()
        return {
            column: [text for text in texts or () if text is not None]
            for column, texts in zip(asked, lists, strict=True)
        }


def row_groups(connection: Any, files: Sequence[DataFile]) -> list[tuple[int, int, int]]:
    """Return the first and last `time` and the number of rows of each group of rows of files."""
    if not files:
        return []
    query = (
        "SELECT stats_min_value::BIGINT, stats_max_value::BIGINT, row_group_num_rows "
        "FROM parquet_metadata($files) WHERE path_in_schema = 'time' AND row_group_num_rows > 0"
    )
    given = {"files": [parquet.pattern(file.path) for file in files]}
    found: list[tuple[int, int, int]] = connection.cursor().execute(query, given).fetchall()
    return found


def _same_numbers(cursor: Any, given: dict[str, list[str]]) -> dict[str, int]:
    """Return the columns of integers that hold one number in all rows of files, and the number.

    Most parts of a step are 0 in all steps: such columns take time and memory for nothing.
    """
    one = "coalesce(stats_null_count = 0 AND stats_min_value = stats_max_value, false)"
    query = (
        "SELECT path_in_schema, min(TRY_CAST(stats_min_value AS BIGINT)) AS number "
        "FROM parquet_metadata($files) WHERE row_group_num_rows > 0 AND type IN ('INT32', 'INT64') "
        f"GROUP BY ALL HAVING bool_and({one}) AND min(stats_min_value) = max(stats_min_value)"
    )
    return dict(cursor.execute(query, given).fetchall())


def retried(read: Callable[[], T]) -> T:
    """Read, and list and read again when files vanish meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return read()
        except Vanished:
            continue
    return read()


def table_schema(name: str) -> TableSchema:
    """Return a table's schema; raises `KeyError` with the names that there are."""
    if name not in TABLES:
        raise KeyError(f"no table {name!r}; there are: {', '.join(TABLES)}")
    return TABLES[name]


def _decoded(codes: NDArray[Any], texts: Sequence[str]) -> NDArray[Any]:
    known = np.ma.getdata(codes)
    masked = np.ma.is_masked(codes)
    if len(texts) == 1 and not masked:
        return repeated(texts[0], len(known))
    values = np.array([*texts, ""], dtype=object)
    if masked:
        known = np.where(np.ma.getmaskarray(codes), len(texts), known.astype(np.int64))
    decoded: NDArray[Any] = values[known]
    return decoded
