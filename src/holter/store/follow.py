"""Read a job while it grows: every row once, whatever is written and compacted meanwhile."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from holter.store.reader import Reader, retried, table_schema

if TYPE_CHECKING:
    from holter.schema.table import Table
    from holter.store.files import DataFile
    from holter.store.job import JobFolder


class Follow:
    """Hands out the rows of files that it has not handed out before.

    It remembers the numbers of the files. A compacted file tells for each row from which file it came, so
    that of one that holds known and unknown files only the unknown rows are handed out.
    """

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder
        # Who follows a running job shares the machine with it.
        self._reader = Reader(folder.place, threads=1)
        self._seen: dict[tuple[str, str], set[int]] = defaultdict(set)
        self._asked: set[str] = set()

    @property
    def skipped(self) -> list[dict[str, str]]:
        """Files that could not be read so far, each with `file` and `why`."""
        return self._reader.skipped

    def new(self, table: str, *, max_rows: int | None = None) -> Table:
        """Return the rows of a table that came since the last call, in the order of time.

        Args:
            table: Name of the table.
            max_rows: Stop after the file that reaches so many rows; the next call goes on from there.

        Raises:
            KeyError: There is no such table.
        """
        schema = table_schema(table)
        self._asked.add(table)

        def read() -> tuple[Table, list[DataFile]]:
            files = self._unseen(table)
            if max_rows is not None:
                files = _first(files, max_rows)
            unseen = {
                file.part.key: self._missing(file) for file in files if file.part.last > file.part.first
            }
            return self._reader.read(files, schema, unseen=unseen), files

        rows, files = retried(read)
        for file in filter(self._reader.catalog.is_good, files):
            self._seen[(table, file.part.node)].update(file.numbers)
        return rows

    @property
    def finished(self) -> bool:
        """Whether the job has ended and all rows of the tables asked for were handed out."""
        # The end first: whoever writes it has written all rows before.
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
