"""All rows of a small job in one file: numbers as differences, each text once, all compressed together.

A file of Parquet for each table costs some 700 bytes before its first row, and each of its columns is
compressed by itself: of a trace of a thousand events that is half. Here columns follow each other, and zstd
begins with the words that most traces hold (`words.txt`, which never changes: another one would be another
format). Very small ones are written as symbols (`tiny`).
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from holter.schema.tables import TABLES
from holter.store import tiny
from holter.store.rows import SEPARATOR, DamagedError, Rows, check, pressed, unpressed, zstd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


MOST_ROWS = 8192
"""Up to so many rows of all tables a job is small."""
_MAGIC = b"HSJ1"
_TRIED = 3
_CONSTANT, _PLANES, _PLANES_OF_DIFFERENCES, _VARINTS, _VARINTS_OF_DIFFERENCES, _FRACTIONS = range(6)


class _Table(msgspec.Struct, array_like=True):
    table: str
    node: str
    rows: int
    columns: int
    """How many of the schema's columns, which are only ever added to at the end …"""
    check: int
    """… and what shows that they are the same."""
    ways: bytes
    """How each stream of numbers is written: one a column, of a text column a second for its texts."""
    sizes: list[int]
    """Bytes of each stream."""
    texts: list[int]
    """Distinct texts of each text column."""


class _Head(msgspec.Struct, array_like=True):
    document: bytes
    """JSON: numbers of any size."""
    tables: list[_Table]


def packed(tables: Sequence[Rows], document: Mapping[str, Any]) -> bytes:
    """Return tables, and what is said of them, as one file.

    Raises:
        ValueError: A text holds a NUL, which separates texts here.
    """
    rows = sum(len(one.columns["time"]) for one in tables)
    if rows <= tiny.MOST_ROWS:
        with suppress(ValueError):
            return tiny.packed(tables, document)
    return framed(tables, document)


def framed(tables: Sequence[Rows], document: Mapping[str, Any]) -> bytes:
    """Return tables, and what is said of them, as one frame of zstd; raises as `packed` does."""
    known: dict[str, int] = {}
    streams: list[bytes] = []
    head = _Head(json.dumps(dict(document), separators=(",", ":")).encode(), [])
    for rows in tables:
        ways, own, counts = [], [], []
        columns = TABLES[rows.table].columns
        for column in columns:
            array = rows.columns[column.name]
            if column.type == "VARCHAR":
                used, array = np.unique(array, return_inverse=True)
                counts.append(len(used))
                texts = [rows.values[column.name][code] for code in used.tolist()]
                own.append(np.array([known.setdefault(text, len(known)) for text in texts]))
            own.append(array)
        for way, stream in map(_packed, own):
            ways.append(way)
            streams.append(stream)
        sizes = [len(stream) for stream in streams[len(streams) - len(own) :]]
        checked = check(columns)
        count = len(rows.columns["time"])
        head.tables.append(
            _Table(rows.table, rows.node, count, len(columns), checked, bytes(ways), sizes, counts)
        )
    if any(SEPARATOR in text for text in known):
        raise ValueError("a text holds a NUL")
    told = msgspec.msgpack.encode(head)
    body = b"".join((len(told).to_bytes(4, "little"), told, *streams, SEPARATOR.join(known).encode()))
    return _MAGIC + pressed(body, checked=True)


def unpacked(data: bytes) -> tuple[list[Rows], dict[str, Any]]:
    """Return tables, and what is said of them; raises `DamagedError`."""
    try:
        return tiny.unpacked(data) if data.startswith(tiny.MAGIC) else _unpacked(data)
    except (
        msgspec.MsgspecError,
        zstd.ZstdError,
        ValueError,
        LookupError,
        StopIteration,
        OverflowError,
        RecursionError,
    ) as error:
        kind = "" if isinstance(error, DamagedError) else f"{type(error).__name__}: "
        raise DamagedError(f"damaged: {kind}{error}") from error


def _unpacked(data: bytes) -> tuple[list[Rows], dict[str, Any]]:
    if not data.startswith(_MAGIC):
        raise DamagedError("is none of holter's, or of a newer one")
    body, _ = unpressed(data[len(_MAGIC) :])
    at = 4 + int.from_bytes(body[:4], "little")
    head = msgspec.msgpack.decode(body[4:at], type=_Head)
    view, found = memoryview(body), []
    texts = body[at + sum(sum(one.sizes) for one in head.tables) :].decode().split(SEPARATOR)
    for one in head.tables:
        if one.table not in TABLES:
            at += sum(one.sizes)  # of a newer holter
            continue
        listed = TABLES[one.table].columns[: one.columns]
        if not 0 < one.rows <= MOST_ROWS or len(listed) < one.columns or check(listed) != one.check:
            raise DamagedError(f"its table {one.table!r} has other columns than this holter knows")
        streams = zip(one.ways, one.sizes, strict=True)
        counts = iter(one.texts)
        columns, values = {}, {}
        for column in listed:
            if column.type == "VARCHAR":
                way, size = next(streams)
                numbers = _numbers(way, view[at : at + size], next(counts))
                values[column.name] = [texts[number] for number in numbers.tolist()]
                at += size
            way, size = next(streams)
            columns[column.name] = _numbers(way, view[at : at + size], one.rows)
            at += size
        found.append(Rows(one.table, one.node, columns, values))
    return found, dict(json.loads(head.document))


def _packed(array: NDArray[Any]) -> tuple[int, bytes]:
    """Return numbers in the way that takes the least, and which that is."""
    if array.dtype.kind == "f":
        return _FRACTIONS, array.astype("<f8").tobytes()
    numbers = array.astype(np.int64)
    if (numbers == numbers[0]).all():
        return _CONSTANT, _varints(_unsigned(numbers[:1]))
    plain, differences = _unsigned(numbers), _unsigned(np.diff(numbers, prepend=0))
    tried = {
        _PLANES: _planes(plain),
        _PLANES_OF_DIFFERENCES: _planes(differences),
        _VARINTS: _varints(plain),
        _VARINTS_OF_DIFFERENCES: _varints(differences),
    }
    how = min(tried, key=lambda how: len(zstd.compress(tried[how], level=_TRIED)))
    return how, tried[how]


def _numbers(how: int, stream: memoryview, rows: int) -> NDArray[Any]:
    if how == _FRACTIONS:
        return np.frombuffer(stream, "<f8", rows)
    if how in (_PLANES, _PLANES_OF_DIFFERENCES):
        planes = np.frombuffer(stream, np.uint8).reshape(-1, rows)
        whole = np.zeros((rows, 8), np.uint8)
        whole[:, : len(planes)] = planes.T
        unsigned = whole.view("<u8")[:, 0]
    else:
        unsigned = _from_varints(np.frombuffer(stream, np.uint8))
    numbers = (unsigned >> np.uint64(1)).view(np.int64) ^ -(unsigned & np.uint64(1)).view(np.int64)
    if how == _CONSTANT:
        return np.full(rows, numbers[0])
    if len(numbers) != rows:
        raise DamagedError(f"{len(numbers)} numbers of {rows} rows")
    of_differences = how in (_PLANES_OF_DIFFERENCES, _VARINTS_OF_DIFFERENCES)
    return np.cumsum(numbers) if of_differences else numbers


def _unsigned(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return numbers of either sign as those of none, small ones small."""
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _planes(numbers: NDArray[np.uint64]) -> bytes:
    """Return the lowest byte of each number, then the next of each, as far as any needs them."""
    width = max(1, -(-int(numbers.max()).bit_length() // 8))
    return np.ascontiguousarray(numbers.view(np.uint8).reshape(-1, 8)[:, :width].T).tobytes()


def _varints(numbers: NDArray[np.uint64]) -> bytes:
    places = np.arange(10, dtype=np.uint64) * np.uint64(7)
    sevens = (numbers[:, None] >> places) & np.uint64(127)
    above = numbers[:, None] >> places
    more = np.concatenate((above[:, 1:] > 0, np.zeros((len(numbers), 1), bool)), axis=1)
    used = above > 0
    used[:, 0] = True
    return (sevens.astype(np.uint8) | (more.astype(np.uint8) << 7))[used].tobytes()


def _from_varints(stream: NDArray[np.uint8]) -> NDArray[np.uint64]:
    ends = np.flatnonzero(stream < 128)
    begins = np.concatenate(([0], ends[:-1] + 1)).astype(np.int64)
    numbers = np.zeros(len(ends), np.uint64)
    for place in range(10):
        at = begins + place
        inside = at <= ends
        sevens = stream[np.minimum(at, ends)].astype(np.uint64) & np.uint64(127)
        numbers |= np.where(inside, sevens << np.uint64(7 * place), np.uint64(0))
    return numbers
