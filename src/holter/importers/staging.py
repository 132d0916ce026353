"""Keep rows of one trace on disk until all of it was read: only then its clock, rank and steps are known."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from holter.schema.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

MOST_TEXT = 64 << 20
"""Characters of distinct names and details kept in memory; beyond, they go to disk too, and begin anew."""

Rows = dict[str, Any]


Text = str | bytes
"""A text; bytes are a JSON object, in UTF-8."""


class Texts(dict[Text, int]):
    """Numbers distinct texts in the order in which they are first asked for."""

    def __init__(self) -> None:
        self.characters = 0

    def __missing__(self, text: Text) -> int:
        number = self[text] = len(self)
        self.characters += len(text) + 60
        return number

    def codes(self, texts: Sequence[Text]) -> NDArray[np.int32]:
        """Return the number of each text."""
        return np.fromiter(map(self.__getitem__, texts), np.int32, len(texts))


class Staging:
    """Rows of one trace, table by table. Columns of text are numbers in `texts`.

    Memory holds one block of rows and `MOST_TEXT` of names; the rest lies in a nameless file.
    """

    def __init__(self) -> None:
        self.texts = Texts()
        self.rows: dict[str, int] = {}
        self._file = tempfile.TemporaryFile(prefix="holter-import-")  # noqa: SIM115 (closed with the trace)
        self._parts: list[list[tuple[str, int, int, list[tuple[str, str]]]]] = [[]]
        self._kept_texts: list[tuple[int, int]] = []

    def append(self, table: str, **columns: NDArray[Any]) -> None:
        """Take in rows: arrays of one length, of text the numbers of `texts`."""
        rows = len(columns["time"])
        if not rows:
            return
        self.rows[table] = self.rows.get(table, 0) + rows
        at = self._file.tell()
        kinds = []
        for name, column in columns.items():
            kinds.append((name, column.dtype.str))
            self._file.write(np.ascontiguousarray(column).data)
        self._parts[-1].append((table, at, rows, kinds))
        if self.texts.characters > MOST_TEXT:
            self._turn()

    def _turn(self) -> None:
        at = self._file.tell()
        self._kept_texts.append((at, self._file.write(msgspec.msgpack.encode(list(self.texts)))))
        self.texts = Texts()
        self._parts.append([])

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
                self._file.seek(at)
                columns: Rows = {}
                for column, kind in kinds:
                    dtype = np.dtype(kind)
                    array = np.frombuffer(self._file.read(rows * dtype.itemsize), dtype)
                    columns[column] = (array, values) if column in texts else array
                yield columns

    def _values(self, number: int) -> list[str]:
        if number == len(self._kept_texts):
            return [*map(_plain, self.texts)]
        at, size = self._kept_texts[number]
        self._file.seek(at)
        return [*map(_plain, msgspec.msgpack.decode(self._file.read(size)))]

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()


def _plain(text: Text) -> str:
    if isinstance(text, str):
        return text
    return "" if text in (b"", b"{}") else text.decode("utf-8", "replace")
