"""Writes rows of one node into a job in batches, as immutable files, without blocking the caller."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
from typing import TYPE_CHECKING

from holter.schema.tables import TABLES
from holter.store.layout import node_folder, parse_part, part_key
from holter.store.parquet import packed
from holter.store.parquet.columns import Batch, Columns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holter.store.job import JobFolder

MAX_ROWS = 50_000
"""A file is written when this number of rows waits …"""
FIRST_AGE_S = 5.0
"""… or the oldest has waited this long; at first short, so that a new job is visible at once."""
ENOUGH_ROWS = 16_384
"""This number of rows is written at the first age already, because they take memory of the training."""
LAST_AGE_S = 60.0
_YOUNG_FILES = 12
"""Files of a table that are written at the first age; then the age doubles with each, up to the last."""
MAX_WAITING_ROWS = 400_000
"""Rows kept for each table while the store cannot be written; further rows are dropped and counted."""
WATCHED_AGE_S = 0.8
WATCHED_FILES = 600
"""The age while somebody watches, and the number of files after which it grows, because readers list them."""
RETRY_S = 5.0
UNWRITTEN = "because the store could not be written"
"""The end of messages about dropped rows."""


class Writer:
    """Writes tables of one node. Nothing that the store does raises here; see `fault` and `dropped`.

    `append` takes rows in, and writes a file when one is due. Several writers on one machine are safe.
    """

    def __init__(
        self,
        folder: JobFolder,
        node: str,
        *,
        max_rows: int = MAX_ROWS,
        max_waiting_rows: int = MAX_WAITING_ROWS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.node = node
        self.files_written: dict[str, int] = dict.fromkeys(TABLES, 0)
        self.dropped: dict[str, int] = {}
        """Rows of each table that were given up because the store could not take them."""
        self.fault: str | None = None
        """Why the last attempt to write failed; `None` again once one succeeds."""
        self.faults = 0
        """Attempts that failed."""
        self.watched = False
        """Whether somebody looks at the job now: then rows wait about a second instead of minutes."""
        self._clock = clock
        self._max_rows = max_rows
        self._max_waiting = max_waiting_rows
        self._batches: dict[str, Batch] = {}
        self._since: dict[str, float] = {}
        self._next: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        self._stored: dict[str, int] = {}
        """Rows of each table that were taken in, and how many of them the store holds."""
        self._doubts: dict[str, tuple[str, str, int]] = {}
        """Files of which we do not know whether they arrived: key, digest of the content, rows."""
        self._retry_at = 0.0
        self._away = False

    def append(self, table: str, columns: Columns) -> None:
        """Take in rows of a table; missing columns get their neutral default.

        Raises:
            KeyError: There is no such table, or it has no such column.
            ValueError: The columns do not fit together. What the store does never raises.
        """
        batch = self._batches.get(table)
        if batch is None:
            if table not in TABLES:
                raise KeyError(f"no table {table!r}; there are: {', '.join(TABLES)}")
            batch = self._batches[table] = Batch(table)
        if batch.rows >= self._max_waiting:
            rows = Batch(table).append(columns, self.node)
            self.dropped[table] = self.dropped.get(table, 0) + rows
        elif rows := batch.append(columns, self.node):
            self._taken[table] = self._taken.get(table, 0) + rows
            self._since.setdefault(table, self._clock())
        self._write_due(table)

    def poll(self) -> None:
        """Write what is due by its age; for callers with nothing to append just now."""
        for table in list(self._batches):
            self._write_due(table)

    def flush(self, table: str | None = None) -> bool:
        """Write all that waits, of one table or of all; returns whether nothing waits any more."""
        done = True
        for name in [table] if table else list(self._batches):
            done = self._write(name) and done
            if self._away:  # each further table would wait as long to learn the same
                return False
        return done

    def mark(self) -> dict[str, int]:
        """Return what `holds` needs to say later whether all that was taken in until now is stored."""
        return dict(self._taken)

    def holds(self, mark: dict[str, int]) -> bool:
        """Return whether the store holds all rows that were taken in before `mark`, dropped ones aside."""
        return all(self._stored.get(table, 0) >= rows for table, rows in mark.items())

    def close(self) -> bool:
        """Write all that waits and count what cannot be written as dropped; returns whether all was."""
        done = self.flush()
        for name, batch in self._batches.items():
            if batch.rows:
                self.dropped[name] = self.dropped.get(name, 0) + batch.rows
        self._batches.clear()
        return done

    @property
    def waiting(self) -> int:
        """Rows that are not in the store yet."""
        return sum(batch.rows for batch in self._batches.values())

    def _write_due(self, table: str) -> None:
        batch = self._batches.get(table)
        if batch is None or batch.rows == 0:
            return
        doublings = max(0, self.files_written[table] - _YOUNG_FILES)
        age = min(LAST_AGE_S, FIRST_AGE_S * 2.0 ** min(doublings, 8))
        if batch.rows >= ENOUGH_ROWS:
            age = FIRST_AGE_S
        if self.watched:
            age = min(age, max(WATCHED_AGE_S, self.files_written[table] / WATCHED_FILES))
        now = self._clock()
        due = batch.rows >= self._max_rows or now - self._since[table] >= age
        if due and now >= self._retry_at:
            self._write(table)

    def _write(self, table: str) -> bool:
        batch = self._batches.get(table)
        if batch is None or batch.rows == 0:
            return True
        try:
            self._put(table, batch)
        except Exception as error:
            # Whatever it is, recording goes on: the rows stay, bounded, and are tried again.
            self.fault = f"{table}: {_why(error)}"
            self.faults += 1
            self._away = isinstance(error, ConnectionError)
            self._retry_at = self._clock() + RETRY_S
            return False
        self.fault = None
        self._away = False
        self._retry_at = 0.0
        self._stored[table] = self._taken[table]
        self._batches.pop(table)
        self._since.pop(table, None)
        return True

    def _put(self, table: str, batch: Batch) -> None:
        if table in self._doubts and self._arrived(table):
            batch.forget(self._doubts[table][2])
        self._doubts.pop(table, None)
        if batch.rows == 0:
            return
        columns, values = batch.ordered()
        t0 = int(columns["time"].min())
        place = self.folder.place
        draft = place.draft(part_key(table, self.node, t0, 0, 0))
        try:
            packed.write(draft, TABLES[table], columns, values, self.node)
            self._add(table, t0, draft, batch.rows)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        self.files_written[table] += 1

    def _arrived(self, table: str) -> bool:
        """Say whether a file arrived whose answer did not: its rows must not be written twice."""
        key, digest, _ = self._doubts[table]
        try:
            return hashlib.sha256(self.folder.place.read(key)).hexdigest() == digest
        except FileNotFoundError:
            return False

    def _add(self, table: str, t0: int, draft: Path, rows: int) -> None:
        """Give the file the next number; the lock keeps it unique."""
        place = self.folder.place
        folder = node_folder(table, self.node)
        with place.lock(folder):
            there = [p.last for e in place.files(folder) if (p := parse_part(e.key)) is not None]
            number = max([self._next.get(table, 0), *(last + 1 for last in there)])
            key = part_key(table, self.node, t0, number, number)
            try:
                place.add(key, draft)
            except OSError:
                if draft.exists():  # the name is still free
                    self._doubts[table] = (key, hashlib.sha256(draft.read_bytes()).hexdigest(), rows)
                raise
        self._next[table] = number + 1


def _why(error: Exception) -> str:
    """Say why a write failed; a full disk in the system's own words alone."""
    full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    return os.strerror(errno.ENOSPC) if full else f"{type(error).__name__}: {error}"
