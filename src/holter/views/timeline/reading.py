"""Queries the events of a timeline: the lanes of a job, and the tables that hold their events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.tables import TABLES
from holter.schema.traces import TILES
from holter.store import cache
from holter.store.parquet import queries as parquet
from holter.store.trial import empty_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.store.trial import Trial

    Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class LaneSource:
    """A table whose rows are events of lanes of one kind."""

    table: str
    kind: str
    device: str = "-1"
    track: str = "thread"
    name: str = "name"
    where: str = "true"


SOURCES = (
    LaneSource("kernels", "stream", "device", "stream"),
    LaneSource("memory_operations", "stream", "device", "stream", "kind"),
    LaneSource("operators", "annotations", where="kind = 'annotation'"),
    # What lies over a stream has its number as thread, and the device in its detail.
    LaneSource(
        "operators",
        "stream_ranges",
        r"""coalesce(try_cast(regexp_extract(detail, '"device": (-?\d+)', 1) AS SMALLINT), -1)""",
        where="kind IN ('device_annotation', 'device_wait')",
    ),
    LaneSource("operators", "thread", where="kind NOT IN ('annotation', 'device_annotation', 'device_wait')"),
    LaneSource("launches", "thread"),
    LaneSource("syncs", "thread", name="CASE WHEN name = '' THEN kind ELSE name END"),
    LaneSource(
        "spans",
        "phases",
        "worker",
        name="CASE WHEN name = '' THEN phase ELSE phase || ': ' || name END",
        # Scalars are no stretches of time, and sampled stacks stand for others' time.
        where="phase NOT IN ('scalar', 'stack', 'loop_stack')",
    ),
)


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of a timeline: a stream of an accelerator; a thread's operators, annotations or phases."""

    node: str
    kind: str
    rank: int
    device: int
    track: int
    events: int = 0
    start: int = 0
    """Begin of its first event, ns since the epoch."""
    end: int = 0
    lines: int = 0
    """How many lines it needs."""
    finest: int = 0
    """Its finest level of detail."""

    @property
    def id(self) -> str:
        """Its name within the job."""
        return f"{self.kind}:{self.rank}:{self.device}:{self.track}@{self.node}"


class EventTables:
    """One connection to a job's tables, as they were when it was opened."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self._connection = parquet.connect()
        self._connection.execute("SET parquet_metadata_cache = true")
        parquet.confine(self._connection, trial.folder.place.reads_from, *_cache_folders())
        self._sources: dict[str, str] = {}
        """What is seen of the job's tables."""
        for table in TABLES:
            if table == TILES.name:
                self._see(table, empty_source(table))
            else:
                self.refresh(table)
        self.names = self._all_names()
        """Every name that events have; a code is a place in it."""

    def refresh(self, table: str) -> None:
        """See the files of a table as they are now."""
        self._sources[table] = self.trial.source(table)
        self._see(table, self._sources[table])

    def use_tiles(self, kept: Trial) -> None:
        """Read the tiles from another place, which is the user's cache."""
        self._see(TILES.name, kept.source(TILES.name))

    def _see(self, table: str, source: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE VIEW {table} AS {source}")

    def replace(self, table: str, columns: Arrays) -> None:
        """Put rows in memory in place of a table's."""
        self._sources.pop(table, None)
        self._connection.execute(f"DROP VIEW {table}")
        self.ask(f"CREATE TABLE {table} AS SELECT * FROM given", given=columns)  # noqa: S608

    def ask(self, query: str, **tables: Arrays) -> Arrays:
        """Run one query with arrays as tables; raises `OSError` where files cannot be read.

        A file that is damaged inside costs its own rows only, and readers of the job say so.
        """
        try:
            try:
                return self._asked(query, tables)
            except parquet.errors():
                if not self._left_out(query):
                    raise
                return self._asked(query, tables)
        except parquet.errors() as error:
            raise OSError(f"{self.trial.folder.name}: {error}") from error

    def _asked(self, query: str, tables: dict[str, Arrays]) -> Arrays:
        cursor = self._connection.cursor()
        for name, columns in tables.items():
            cursor.register(name, columns)
        found: Arrays = cursor.execute(query).fetchnumpy()
        return {name: np.ma.getdata(column) for name, column in found.items()}

    def _left_out(self, query: str) -> bool:
        """Leave out damaged files of the tables that a query names; return whether there are any."""
        named = {table: seen for table, seen in self._sources.items() if table in query}
        for table in named:
            self.trial.table(table)  # reading all finds them
            self.refresh(table)
        return any(self._sources[table] != seen for table, seen in named.items())

    def _all_names(self) -> NDArray[Any]:
        terms = [f"SELECT DISTINCT {s.name} AS name FROM {s.table} WHERE {s.where}" for s in SOURCES]  # noqa: S608
        each = " UNION ".join(terms)
        names = self.ask(f"{each} ORDER BY name")["name"]
        self.ask("CREATE TYPE name_codes AS ENUM (SELECT name FROM names)", names={"name": names})
        return names

    def counted(self) -> int:
        """Return how many events the tables hold."""
        return sum(
            int(self.ask(f"SELECT count(*) AS n FROM {s.table} WHERE {s.where}")["n"][0])  # noqa: S608
            for s in SOURCES
        )

    def events_per_s(self) -> float:
        """Return how many events begin in a second, of those in which any does."""
        terms = " UNION ALL ".join(f"SELECT time FROM {s.table} WHERE {s.where}" for s in SOURCES)  # noqa: S608
        query = f"SELECT count(*) AS n, count(DISTINCT time >> 27) * (1 << 27) AS ns FROM ({terms})"  # noqa: S608
        (found,) = rows(self.ask(query))
        return found[0] / found[1] * 1e9 if found[1] else 0.0

    def lanes(self) -> list[Lane]:
        """Find the lanes by looking at all events; what only tiles know of them is not filled in."""
        terms = " UNION ALL ".join(
            f"SELECT node, '{s.kind}' AS kind, rank, {s.device} AS device, {s.track} AS track, "  # noqa: S608
            "count(*) AS events, min(time) AS start, max(time + duration) AS stop "
            f"FROM {s.table} WHERE {s.where} GROUP BY ALL"
            for s in SOURCES
        )
        query = (
            "SELECT node, kind, rank, device, track, sum(events)::BIGINT AS events, "  # noqa: S608
            f"min(start) AS start, max(stop) AS stop FROM ({terms}) GROUP BY ALL ORDER BY ALL"
        )
        return [Lane(*row) for row in rows(self.ask(query))]

    def events(
        self,
        lanes: Sequence[Lane],
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
        limit: int | None = None,
    ) -> Arrays | None:
        """Read the events of some lanes that begin in a range of time, in no order; None beyond `limit`.

        The columns are `lane` (place in `lanes`), `time`, `duration` and `name` (code).
        """
        kinds = {lane.kind for lane in lanes}
        limits = [f"time >= {start_ns}"] if start_ns is not None else []
        limits += [f"time < {end_ns}"] if end_ns is not None else []
        terms = " UNION ALL ".join(
            f"SELECT lane, time, duration, enum_code(({s.name})::name_codes)::INTEGER AS name "  # noqa: S608
            f"FROM {s.table} JOIN wanted ON lane_kind = '{s.kind}' AND lane_node = node AND lane_rank = rank "
            f"AND lane_device = {s.device} AND lane_track = {s.track} "
            f"WHERE {' AND '.join([s.where, *limits])}"
            for s in SOURCES
            if s.kind in kinds
        )
        query = terms if limit is None else f"SELECT * FROM ({terms}) LIMIT {limit + 1}"  # noqa: S608
        found = self.ask(query, wanted=wanted(lanes))
        return None if limit is not None and len(found["time"]) > limit else found


def _cache_folders() -> list[Path]:
    try:
        return [cache.root()]
    except OSError:
        return []


def wanted(lanes: Iterable[Lane]) -> Arrays:
    """Return lanes as a table to join with: `lane` is a lane's place, other columns begin with `lane_`."""
    listed = list(lanes)
    columns: Arrays = {"lane": np.arange(len(listed), dtype=np.int32)}
    dtypes = {"node": object, "kind": object, "rank": np.int32, "device": np.int16, "track": np.int64}
    for field, dtype in {**dtypes, "finest": np.int16}.items():
        columns[f"lane_{field}"] = np.array([getattr(lane, field) for lane in listed], dtype=dtype)
    return columns


def rows(arrays: Arrays) -> Iterable[tuple[Any, ...]]:
    """Yield the rows of columns as plain values."""
    return zip(*(column.tolist() for column in arrays.values()), strict=True)
