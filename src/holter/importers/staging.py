"""Keep rows of one trace on disk until all of it was read: only then its clock, rank and steps are known."""

from __future__ import annotations

import os
import tempfile
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np

from holter.schema.table import Codes
from holter.schema.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

ROWS = 1 << 15
"""Rows of one table kept in memory before they go to disk."""
MOST_TEXT = 64 << 20
"""Characters of distinct names and details kept in memory; beyond, they go to disk too, and begin anew."""

Rows = dict[str, Any]
Text = str | bytes
"""A text; bytes are a JSON object, in UTF-8."""


class Texts(Codes[Text]):
    """Numbers distinct texts, and counts the characters that memory holds."""

    def __init__(self) -> None:
        self.characters = 0

    def __missing__(self, text: Text) -> int:
        self.characters += len(text) + 60
        return super().__missing__(text)


class Staging:
    """Rows of one trace, table by table. Columns of text are numbers in `texts`.

    Memory holds `ROWS` rows of each table and `MOST_TEXT` of names; the rest lies in a nameless file, or in
    one of a folder. Then it can be pickled, and another process that sees the folder goes on with it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._path: str | None = None
        self.texts = Texts()
        self.rows: dict[str, int] = {}
        self._waiting: dict[str, list[Rows]] = {}
        self._parts: list[list[tuple[str, int, int, list[tuple[str, str]]]]] = [[]]
        self._kept_texts: list[tuple[int, int]] = []
        self._plain: list[str] = []
        """The texts as they are stored, as far as they were asked for."""

    def append(self, table: str, **columns: NDArray[Any]) -> None:
        """Take in rows: arrays of one length, of text the numbers of `texts`."""
        rows = len(columns["time"])
        if not rows:
            return
        self.rows[table] = self.rows.get(table, 0) + rows
        waiting = self._waiting.setdefault(table, [])
        if waiting and waiting[0].keys() != columns.keys():
            self._put(table)
        waiting.append(columns)
        if sum(len(one["time"]) for one in waiting) >= ROWS:
            self._put(table)

    def relieve(self) -> None:
        """Begin anew with texts if there are too many; numbers of texts that were asked for are void then."""
        if self.texts.characters <= MOST_TEXT:
            return
        for table in self._waiting:
            self._put(table)
        self._kept_texts.append(self._written(msgspec.msgpack.encode(list(self.texts))))
        self.texts, self._plain = Texts(), []
        self._parts.append([])

    def _put(self, table: str) -> None:
        """Write the waiting rows of a table to the file."""
        waiting = self._waiting[table]
        if not waiting:
            return
        columns = _joined(waiting)
        kinds = [(name, column.dtype.str) for name, column in columns.items()]
        at = [self._written(np.ascontiguousarray(column).data)[0] for column in columns.values()]
        self._parts[-1].append((table, at[0], len(columns["time"]), kinds))
        waiting.clear()

    def _written(self, data: Any) -> tuple[int, int]:
        return self._file.seek(0, 2), self._file.write(data)

    @cached_property
    def _file(self) -> IO[bytes]:
        if self._folder is None:
            return tempfile.TemporaryFile(prefix="holter-import-")
        descriptor, self._path = tempfile.mkstemp(prefix="rows-", dir=self._folder)
        return os.fdopen(descriptor, "w+b")

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the file, which the other process opens by its name."""
        state = dict(vars(self))
        file = state.pop("_file", None)
        if file is not None:
            file.flush()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self._path is not None:
            vars(self)["_file"] = Path(self._path).open("r+b")  # noqa: SIM115 - until `close`

    def read(self, table: str) -> Iterator[Rows]:
        """Yield the rows of a table, some at a time; text as pairs of numbers and values."""
        texts = {c.name for c in TABLES[table].columns if c.type == "VARCHAR"}
        for number, parts in enumerate(self._parts):
            values: list[str] | None = None
            for name, at, rows, kinds in parts:
                if name != table:
                    continue
                if values is None:
                    values = self._values(number)
                columns = self._read(at, rows, kinds)
                yield {c: (array, values) if c in texts else array for c, array in columns.items()}
        if waiting := self._waiting.get(table):
            values = self._values(len(self._kept_texts))
            yield {c: (array, values) if c in texts else array for c, array in _joined(waiting).items()}

    def _read(self, at: int, rows: int, kinds: list[tuple[str, str]]) -> Rows:
        self._file.seek(at)
        columns: Rows = {}
        for column, kind in kinds:
            dtype = np.dtype(kind)
            columns[column] = np.frombuffer(self._file.read(rows * dtype.itemsize), dtype)
        return columns

    def listed(self) -> list[str]:
        """Return the texts as they are stored, by their numbers."""
        return self._values(len(self._kept_texts))

    def _values(self, number: int) -> list[str]:
        if number == len(self._kept_texts):
            self._plain += map(_plain, islice(self.texts, len(self._plain), None))
            return self._plain
        at, size = self._kept_texts[number]
        self._file.seek(at)
        return [*map(_plain, msgspec.msgpack.decode(self._file.read(size)))]

    def close(self) -> None:
        """Give the disk back."""
        if "_file" in vars(self):
            self._file.close()
        if self._path is not None:
            os.unlink(self._path)
            self._path = None


def _joined(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _plain(text: Text) -> str:
    if isinstance(text, str):
        return text
    return "" if text in (b"", b"{}") else text.decode("utf-8", "replace")
