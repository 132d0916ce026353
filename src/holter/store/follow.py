"""Reads a growing job: every row once, also while files are written and compacted."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

from holter.store.reader import Reader, retried, table_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.schema.table import Table
    from holter.store.files import DataFile
    from holter.store.job import JobFolder

T = TypeVar("T")


class Follow:
    """Returns each row once.

    It keeps the numbers of the files that were read. A compacted file holds for each row the number of the
    file that the row came from, so only the rows of new files are returned.
    """

    def __init__(self, folder: JobFolder, *, reader: Reader | None = None) -> None:
        """Follow a job; several followers in one process share a `reader`, which keeps the files' footers."""
        self.folder = folder
        # The reader of a running job shares the machine with it.
        self._reader = reader or Reader(folder.place, threads=1)
        self._seen: dict[tuple[str, str], set[int]] = defaultdict(set)
        self._asked: set[str] = set()

    @property
    def skipped(self) -> list[dict[str, str]]:
        """Files that could not be read so far, each with `file` and `why`."""
        return self._reader.catalog.skipped

    def new(
        self,
        table: str,
        *,
        max_rows: int | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
    ) -> Table:
        """Return the rows of a table that came since the last call, in the order of time.

        Args:
            table: Name of the table.
            max_rows: Stop after the file that reaches this number of rows; the next call continues there.
            columns: Columns to return; all by default.
            where: An SQL condition on the rows; later calls do not return the other rows either.

        Raises:
            KeyError: The table or a column does not exist.
            ValueError: The condition is invalid.
        """
        schema = table_schema(table)

        def read(files: list[DataFile]) -> Table:
            compacted = (file for file in files if file.part.last > file.part.first)
            unseen = {file.part.key: self._missing(file) for file in compacted}
            return self._reader.read(files, schema, columns=columns, where=where, unseen=unseen)

        return self._take(table, read, max_rows)

    def distinct(self, table: str, columns: Sequence[str]) -> set[tuple[Any, ...]]:
        """Return the combinations of values in the rows that came since the last call.

        Of a compacted file that holds old and new rows, the old ones count too. Raises `KeyError`.
        """
        schema = table_schema(table)
        return self._take(table, lambda files: self._reader.distinct(files, schema, columns))

    def _take(self, table: str, read: Callable[[list[DataFile]], T], max_rows: int | None = None) -> T:
        """Read the files that came since the last call, and keep their numbers."""
        self._asked.add(table)

        def attempt() -> tuple[T, list[DataFile]]:
            files = self._unseen(table)
            files = files if max_rows is None else _first(files, max_rows)
            return read(files), files

        found, files = retried(attempt)
        for file in filter(self._reader.catalog.is_good, files):
            self._seen[(table, file.part.node)].update(file.numbers)
        return found

    @property
    def finished(self) -> bool:
        """Whether the job has ended and all rows of the tables asked for were handed out."""
        # The end first: its writer has written all rows before.
        if self.folder.manifest().get("end") is None:
            return False
        return not any(self._unseen(table) for table in self._asked)

    def _unseen(self, table: str) -> list[DataFile]:
        return [file for file in self._reader.files(table) if self._missing(file)]

    def _missing(self, file: DataFile) -> set[int]:
        return set(file.numbers) - self._seen[(file.part.table, file.part.node)]


def _first(files: list[DataFile], max_rows: int) -> list[DataFile]:
    ordered = sorted(files, key=lambda file: (file.part.t0, file.part.node, file.part.first))
    total = 0
    for n, file in enumerate(ordered, 1):
        total += file.rows
        if total >= max_rows:
            return ordered[:n]
    return ordered
