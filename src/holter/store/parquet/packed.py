"""Writes Parquet from columns whose texts are numbered already, without a database.

DuckDB would take 50 MB of memory next to the training, and 4 ms for each small file. A small file gets the
smallest of all encodings, and statistics of its times and steps only.
Format: https://github.com/apache/parquet-format
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.schema.columns import Column
from holter.schema.varint import varint
from holter.store.parquet import encodings
from holter.store.parquet import queries as parquet
from holter.store.parquet.encodings import zigzag

zstd: Any
if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.schema.columns import TableSchema

SMALL = 4096
"""Up to so many rows, all encodings of a column are tried."""
_EFFORT = {encodings.PLAIN: 1, encodings.DELTA: 3, encodings.DICTIONARY: 3}
"""How hard zstd works on each: more makes plain numbers larger, the others smaller in hardly more time."""
_TRIED = 4096
"""Rows by which the encoding of a longer column is chosen."""

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
"""Types of Thrift's compact protocol, in which Parquet's headers and footers are written."""
_INT32, _INT64, _FLOAT, _DOUBLE, _BYTES = 1, 2, 4, 5, 6
_TYPES: dict[str, tuple[int, str, int | None]] = {
    "SMALLINT": (_INT32, "<i4", 16),
    "INTEGER": (_INT32, "<i4", 17),
    "BIGINT": (_INT64, "<i8", None),
    "FLOAT": (_FLOAT, "<f4", None),
    "DOUBLE": (_DOUBLE, "<f8", None),
    "VARCHAR": (_BYTES, "", 0),
}
"""DuckDB's types: Parquet's physical type, how numbers lie in memory, and what they mean there."""
_UNCOMPRESSED, _ZSTD = 0, 6
_BATCH = Column(parquet.BATCH, "INTEGER", "", nullable=True)
"""Null, for the file is its own: so that all files of a table have the same columns."""


def write(
    path: Path,
    table: TableSchema,
    columns: Mapping[str, NDArray[Any]],
    values: Mapping[str, Sequence[str]],
    node: str,
) -> None:
    """Write the rows of one table to a file; text columns are codes into `values`. Raises `OSError`."""
    time = columns["time"]
    groups: list[bytes] = []
    with path.open("wb") as file:
        file.write(b"PAR1")
        for first in range(0, len(time), parquet.ROW_GROUP):
            rows = slice(first, first + parquet.ROW_GROUP)
            chunks, size = [], 0
            unknown = np.full(len(time[rows]), np.nan)
            for column in (*table.columns, _BATCH):
                array = unknown if column is _BATCH else columns[column.name][rows]
                chunk = _Chunk(column, array, values.get(column.name, ()))
                chunks.append(chunk.described(file.tell()))
                size += chunk.length
                file.writelines(chunk.pages)
            count = len(time[rows])
            groups.append(_struct((1, _LIST, _listed(_STRUCT, chunks)), (2, _I64, size), (3, _I64, count)))
        says = parquet.footer(table, node, len(time), int(time.min()), int(time.max()))
        footer = _footer(table, len(time), groups, says)
        file.write(footer + len(footer).to_bytes(4, "little") + b"PAR1")


class _Chunk:
    """One column of a group of rows: its pages, compressed, and what the footer says of them."""

    def __init__(self, column: Column, array: NDArray[Any], values: Sequence[str]) -> None:
        self._column = column
        self._type, kind, _ = _TYPES[column.type]
        self._rows = len(array)
        self._small = self._rows <= SMALL
        self._limits: tuple[bytes, bytes] | None = None
        if column.type == "VARCHAR":
            chosen = self._texts(array, values)
        elif array.dtype.kind == "f":
            chosen = self._fractions(array, kind)
        else:
            chosen = self._numbers(array.astype(kind))
        encoding, raws = chosen.encoding, chosen.raws
        self._encodings = [encoding] if encoding != encodings.DICTIONARY else [encodings.PLAIN, encoding]
        pressed = chosen.pressed
        self._codec = _ZSTD
        if sum(map(len, pressed)) >= sum(map(len, raws)):
            self._codec, pressed = _UNCOMPRESSED, raws
        levels = (3, _I32, encodings.RLE), (4, _I32, encodings.RLE)
        headers = [_page(0, raws[-1], pressed[-1], 5, (1, _I32, self._rows), (2, _I32, encoding), *levels)]
        if len(raws) > 1:
            told = (1, _I32, chosen.listed), (2, _I32, encodings.PLAIN)
            headers.insert(0, _page(2, raws[0], pressed[0], 7, *told))
        self.pages = [part for page in zip(headers, pressed, strict=True) for part in page]
        self.length = sum(map(len, self.pages))
        self._plain_size = sum(map(len, headers)) + sum(map(len, raws))
        self._list_size = len(headers[0]) + len(pressed[0]) if len(raws) > 1 else 0

    def _texts(self, codes: NDArray[Any], values: Sequence[str]) -> _Pages:
        used = np.flatnonzero(np.bincount(codes))
        own = np.zeros(int(used[-1]) + 1, np.int32)
        own[used] = np.arange(len(used))
        texts = [values[code] for code in used.tolist()]
        own_codes = own[codes]
        listed = self._listed(own_codes, encodings.texts(texts), len(used))
        if not self._small:
            return listed
        plain = encodings.texts([texts[code] for code in own_codes.tolist()])
        return min(listed, self._plain(plain), key=_Pages.size)

    def _fractions(self, array: NDArray[Any], kind: str) -> _Pages:
        if not self._column.nullable:
            return self._plain(array.astype(kind).tobytes())
        present = ~np.isnan(array)
        return self._plain(encodings.levels(present) + array[present].astype(kind).tobytes())

    def _numbers(self, array: NDArray[Any]) -> _Pages:
        least, most = array.min(), array.max()
        if self._column.name in ("time", "step"):
            self._limits = least.tobytes(), most.tobytes()
        if least == most and not self._small:
            return self._listed(np.zeros(self._rows, np.int32), array[:1].tobytes(), 1)
        tried = array[:_TRIED]
        both = [
            self._plain(tried.tobytes()),
            self._pages(encodings.DELTA, encodings.differences(tried)),
        ]
        if self._small:
            found, codes = np.unique(array, return_inverse=True)
            return min(*both, self._listed(codes, found.tobytes(), len(found)), key=_Pages.size)
        best = min(both, key=_Pages.size).encoding
        if best == encodings.PLAIN:
            return self._plain(array.tobytes())
        return self._pages(best, encodings.differences(array))

    def _plain(self, raw: bytes) -> _Pages:
        return self._pages(encodings.PLAIN, raw)

    def _listed(self, codes: NDArray[Any], values: bytes, count: int) -> _Pages:
        """Return a list of distinct values, plain, and of each row the number of its own."""
        return self._pages(encodings.DICTIONARY, values, encodings.indices(codes, count - 1), count=count)

    def _pages(self, encoding: int, *raws: bytes, count: int = 0) -> _Pages:
        pressed = tuple(zstd.compress(raw, level=_EFFORT[encoding]) for raw in raws)
        return _Pages(encoding, raws, pressed, count)

    def described(self, at: int) -> bytes:
        """Return what the footer says of it, if it begins at a place of the file."""
        fields: list[tuple[int, int, Any]] = [
            (1, _I32, self._type),
            (2, _LIST, _listed(_I32, [zigzag(encoding) for encoding in self._encodings])),
            (3, _LIST, _listed(_BINARY, [_binary(self._column.name.encode())])),
            (4, _I32, self._codec),
            (5, _I64, self._rows),
            (6, _I64, self._plain_size),
            (7, _I64, self.length),
            (9, _I64, at + self._list_size),
        ]
        if self._list_size:
            fields.append((11, _I64, at))
        if self._limits is not None:
            least, most = self._limits
            fields.append((12, _STRUCT, _struct((5, _BINARY, most), (6, _BINARY, least))))
        return _struct((2, _I64, at), (3, _STRUCT, _struct(*fields)))


class _Pages(NamedTuple):
    """One way to write a column down; before the rows a list of so many distinct values, if it has one."""

    encoding: int
    raws: tuple[bytes, ...]
    pressed: tuple[bytes, ...]
    listed: int

    def size(self) -> int:
        """Return the bytes it takes, with headers of about 20."""
        return min(sum(map(len, self.raws)), sum(map(len, self.pressed))) + 20 * len(self.raws)


def _page(kind: int, raw: bytes, pressed: bytes, field: int, *told: tuple[int, int, Any]) -> bytes:
    """Write the header of a page of a kind, whose own facts stand in a field of their own."""
    sizes = (1, _I32, kind), (2, _I32, len(raw)), (3, _I32, len(pressed))
    return _struct(*sizes, (field, _STRUCT, _struct(*told)))


def _footer(table: TableSchema, rows: int, groups: list[bytes], says: Mapping[str, str]) -> bytes:
    columns = (*table.columns, _BATCH)
    elements = [_struct((4, _BINARY, b"holter"), (5, _I32, len(columns)))]
    for column in columns:
        physical, _, meaning = _TYPES[column.type]
        fields = [(1, _I32, physical), (3, _I32, int(column.nullable)), (4, _BINARY, column.name.encode())]
        elements.append(_struct(*fields, *([] if meaning is None else [(6, _I32, meaning)])))
    facts = [_struct((1, _BINARY, key.encode()), (2, _BINARY, text.encode())) for key, text in says.items()]
    return _struct(
        (1, _I32, 2),
        (2, _LIST, _listed(_STRUCT, elements)),
        (3, _I64, rows),
        (4, _LIST, _listed(_STRUCT, groups)),
        (5, _LIST, _listed(_STRUCT, facts)),
        # Statistics compare as the types say; without this readers may not use them.
        (7, _LIST, _listed(_STRUCT, [_struct((1, _STRUCT, _struct()))] * len(columns))),
    )


def _struct(*fields: tuple[int, int, Any]) -> bytes:
    """Write a struct: its fields in the order of their numbers, each with its number, type and value."""
    parts, last = [], 0
    for number, kind, value in fields:
        parts.append(bytes((number - last << 4 | kind,)))
        last = number
        if kind in (_I32, _I64):
            parts.append(zigzag(value))
        else:
            parts.append(_binary(value) if kind == _BINARY else value)
    return b"".join(parts) + b"\0"


def _binary(value: bytes) -> bytes:
    return varint(len(value)) + value


def _listed(kind: int, members: list[bytes]) -> bytes:
    count = len(members)
    return (bytes((count << 4 | kind,)) if count < 15 else bytes((0xF0 | kind,)) + varint(count)) + b"".join(
        members
    )
