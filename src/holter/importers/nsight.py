"""Import what Nsight Systems exports as SQLite: kernels, copies, calls of CUDA, NVTX ranges, MPI, threads."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.importers.kineto import host_events
from holter.importers.kineto.device_events import kernels, placed
from holter.importers.report import UnreadableError
from holter.importers.trace import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.importers.trace import Trace

FORMAT = "nsight-sqlite"

_MAGIC = b"SQLite format 3\0"
_ROWS = 20_000
_COPIES = {1: "h2d", 2: "d2h", 3: "h2d", 4: "d2h", 9: "h2h", 10: "p2p"}
"""Kinds of copies by their numbers; the others stay on the device."""
_HOST_MEMORY = {0: "pageable", 1: "pinned"}
_VERSION = re.compile(r"_v\d+$")
_MPI_RANK = re.compile(r"MPI Rank (\d{1,9})")
_NAMES = ("demangledName", "shortName", "mangledName", "nameId", "textId")
"""What holds the name of an event, by version."""
_COLUMN = re.compile(r"[A-Za-z_]\w*")
_NVTX_RANGES = (59, 60, 70, 71)
_LONGEST = 1 << 20
Rows = list[tuple[Any, ...]]


def recognizes(path: Path) -> bool:
    """Tell whether a file is a database of SQLite."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read(path: Path, trace: Trace) -> None:
    """Read a database into a trace.

    Raises:
        UnreadableError: It is no database, or none of Nsight Systems.
        OSError: It cannot be opened.
    """
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        _Database(connection, trace).read()
    except sqlite3.Error as error:
        if not trace.events:
            raise UnreadableError(f"the database cannot be read: {error}") from error
        trace.skipped[f"the rest of the database: {error}"] += 1
    finally:
        connection.close()


class _Database:
    def __init__(self, connection: sqlite3.Connection, trace: Trace) -> None:
        self._connection = connection
        self._trace = trace
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        self._tables = {str(name) for (name,) in tables}
        if "StringIds" not in self._tables:
            raise UnreadableError(
                "it is a database of SQLite, but has no table StringIds: not of Nsight Systems"
            )
        self._processes: dict[int, int] = {}
        self._owned = "globalPid" in self._columns("CUPTI_ACTIVITY_KIND_KERNEL")

    def read(self) -> None:
        """Take in all tables that have a place in ours."""
        for (start,) in self._select("TARGET_INFO_SESSION_START_TIME", "utcEpochNs", whole=True):
            if isinstance(start, int):
                self._trace.offset_ns = start
        told = self._select("TARGET_INFO_GPU", self._known("TARGET_INFO_GPU", "id, name"), whole=True)
        gpus = {_number(number, place): _text(name) for place, (number, name) in enumerate(told)}
        self._trace.facts["devices"] = [{"id": number, "name": name} for number, name in gpus.items()]
        for number, name in gpus.items():
            self._trace.name(number, None, name, None)
        for rows in self._events("CUPTI_ACTIVITY_KIND_KERNEL", _KERNEL, "demangledName"):
            self._kernels(rows)
        for rows in self._events(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            "deviceId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind",
        ):
            self._copies(rows, [_COPIES.get(row[7], "d2d") for row in rows])
        for rows in self._events(
            "CUPTI_ACTIVITY_KIND_MEMSET", "deviceId, streamId, correlationId, globalPid, bytes, 0, 2, 2"
        ):
            self._copies(rows, ["memset"] * len(rows))
        for rows in self._events("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid, correlationId", "nameId"):
            self._calls(rows)
        for table in sorted(self._tables):
            if table == "OSRT_API":
                self._ranges(table, "nameId", "runtime")
            elif table.startswith("MPI_") and table.endswith("_EVENTS"):
                self._ranges(table, "textId", "runtime")
            elif table == "PROFILER_OVERHEAD":
                self._ranges(table, "nameId", "overhead")
        self._nvtx()
        ranks: set[int] = set()
        for tid, name in self._select(
            "ThreadNames", "globalTid, (SELECT value FROM StringIds WHERE id = nameId)", whole=True
        ):
            self._trace.name(*_ids(tid), _text(name), None)
            if rank := _MPI_RANK.fullmatch(_text(name)):
                ranks.add(int(rank[1]))
        if len(ranks) == 1:
            self._trace.rank = ranks.pop()
        for tid, name in self._select("PROCESSES", "globalPid, name", whole=True):
            self._trace.name(_ids(tid)[0], None, _text(name), None)

    def _select(
        self, table: str, columns: str, where: str = "", *, whole: bool = False
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows of a table, none when it is not there or lacks a column."""
        if table not in self._tables:
            return
        try:
            cursor = self._connection.execute(f'SELECT {columns} FROM "{table}" {where}')  # noqa: S608 (names of ours)
        except sqlite3.OperationalError as error:
            self._trace.skipped[f"table {table}: {error}"] += 1
            return
        yield from cursor.fetchmany(100_000) if whole else cursor

    def _events(self, table: str, columns: str, name: str | None = None, where: str = "") -> Iterator[Rows]:
        """Yield rows of events, some at a time: start, end, the columns asked for, and the name at last."""
        columns = self._known(table, columns)
        if name is not None:
            there = next((one for one in (name, *_NAMES) if one in self._columns(table)), "NULL")
            columns += f", (SELECT value FROM StringIds WHERE id = {there})"  # noqa: S608 (a name of ours)
        rows: Rows = []
        for row in self._select(table, f"start, end, {columns}", where or "ORDER BY start"):
            self._trace.events += 1
            if type(row[0]) is not int or type(row[1]) is not int or row[1] < row[0]:
                self._trace.skipped["an event without a time"] += 1
                continue
            rows.append(row)
            if len(rows) >= _ROWS:
                yield rows
                self._trace.progress(0)
                rows = []
        if rows:
            yield rows

    def _columns(self, table: str) -> set[str]:
        """Return the columns of a table; versions have more or fewer."""
        if table not in self._tables:
            return set()
        return {row[1] for row in self._connection.execute(f'PRAGMA table_info("{table}")')}

    def _known(self, table: str, columns: str) -> str:
        """Put nothing in the place of columns that this version does not have."""
        there = self._columns(table)
        if "(" in columns:
            return columns
        listed = [column.strip() for column in columns.split(",")]
        return ", ".join(one if set(_COLUMN.findall(one)) <= there else "NULL" for one in listed)

    def _threads(self, rows: Rows) -> NDArray[np.int64]:
        return np.array([self._trace.threads[_ids(row[2])] for row in rows], np.int64)

    def _device(self, rows: Rows) -> dict[str, NDArray[Any]]:
        time, duration = _times(rows)
        device, stream = placed(self._trace, *(whole_numbers([row[n] for row in rows]) for n in (2, 3)))
        return {
            "time": time,
            "duration": duration,
            "device": device,
            "stream": stream,
            "correlation": self._correlations((row[4], row[5]) for row in rows),
        }

    def _kernels(self, rows: Rows) -> None:
        columns = kernels(self._trace, [_text(row[-1]) for row in rows])
        details = self._trace.text([_detail(row[6:-1]) for row in rows])
        self._trace.append("kernels", **self._device(rows), **columns, detail=details)

    def _copies(self, rows: Rows, kinds: list[str]) -> None:
        memory = [_HOST_MEMORY.get(row[8], _HOST_MEMORY.get(row[9], "")) for row in rows]
        self._trace.append(
            "memory_operations",
            **self._device(rows),
            kind=self._trace.text(kinds),
            memory=self._trace.text(memory),
            bytes=np.array([_number(row[6], 0) for row in rows], np.int64),
        )

    def _correlations(self, told: Iterable[tuple[Any, Any]]) -> NDArray[np.int64]:
        """Return correlations that are of one process each, out of those that each process counts anew."""
        found = []
        for number, owner in told:
            process = _ids(owner)[0] if self._owned else 0
            place = self._processes.setdefault(process, len(self._processes))
            found.append(_number(number, 0) & 0xFFFFFFFF | place << 32 if number else 0)
        return np.array(found, np.int64)

    def _calls(self, rows: Rows) -> None:
        once: Rows = []
        for row in rows:
            name = _VERSION.sub("", _text(row[-1]))
            # Newer exports hold a call and, within it, the same by the name of its version.
            if once and row[3] and (*row[2:4], name) == once[-1][2:] and row[1] <= once[-1][1]:
                self._trace.omitted["calls that are told twice"] += 1
                continue
            once.append((*row[:-1], name))
        correlation = self._correlations((row[3], row[2]) for row in once)
        names = [row[-1] for row in once]
        host_events.calls(
            self._trace, self._trace.text(names), self._threads(once), *_times(once), correlation
        )

    def _ranges(self, table: str, name: str, kind: str) -> None:
        for rows in self._events(table, "globalTid", name):
            self._operators(rows, kind)

    def _nvtx(self) -> None:
        columns = "globalTid, coalesce(text, (SELECT value FROM StringIds WHERE id = textId))"
        where = f"WHERE eventType IN {_NVTX_RANGES} AND end IS NOT NULL ORDER BY start"
        for rows in self._events("NVTX_EVENTS", columns, where=where):
            self._operators(rows, "annotation")

    def _operators(self, rows: Rows, kind: str) -> None:
        names = self._trace.text([_text(row[-1]) for row in rows])
        host_events.operator_rows(self._trace, names, self._threads(rows), *_times(rows), kind)


_KERNEL = (
    "deviceId, streamId, correlationId, globalPid, gridX, gridY, gridZ, blockX, blockY, blockZ, "
    "registersPerThread, staticSharedMemory + dynamicSharedMemory"
)
_DETAIL = '{{"grid": [{}, {}, {}], "block": [{}, {}, {}], "registers per thread": {}, "shared memory": {}}}'


def _detail(told: tuple[Any, ...]) -> str:
    """Return how a kernel was launched; nothing where this version does not say."""
    return _DETAIL.format(*told) if all(isinstance(number, int) for number in told) else ""


def _times(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    times = np.array([row[:2] for row in rows], np.int64)
    return times[:, 0], times[:, 1] - times[:, 0]


def _ids(global_tid: Any) -> tuple[int, int]:
    """Return process and thread of what Nsight Systems makes one number of."""
    number = _number(global_tid, 0)
    return (number >> 24) & 0xFFFFFF, number & 0xFFFFFF


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _number(value: Any, default: int = -1) -> int:
    return value if isinstance(value, int) else default
