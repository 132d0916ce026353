"""Read tensors out of records of event files, as smdebug writes them: bounded, nothing trusted."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.schema.varint import read_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_DTYPES = {
    1: "<f4",
    2: "<f8",
    3: "<i4",
    4: "<u1",
    5: "<i2",
    6: "<i1",
    8: "<c8",
    9: "<i8",
    10: "?",
    17: "<u2",
    18: "<c16",
    19: "<f2",
    22: "<u4",
    23: "<u8",
}
"""TensorFlow's numbers of types → numpy's names. bfloat16 (14) is not read."""
_TEXT = (0, 7)
"""smdebug leaves the type of texts away."""
_MOST_TEXT = 1 << 28
"""Bytes that an array of texts may take: each takes as many as the longest."""

_MOST_DIMENSIONS = 32
_LENGTHS = {1: 8, 5: 4}
"""Bytes of a field of fixed length, by how it is coded."""


class BadRecordError(ValueError):
    """A record is damaged, or holds no tensor that can be read."""


class EventRecord(NamedTuple):
    """One tensor of one step."""

    wall_time: float
    tag: str
    array: NDArray[Any]


def event(record: bytes) -> EventRecord:
    """Read one framed record, of which the checksums are not looked at: smdebug writes a constant there.

    Raises:
        BadRecordError: The record is damaged; the text says how.
    """
    if len(record) < 16 or struct.unpack("<Q", record[:8])[0] != len(record) - 16:
        raise BadRecordError(f"{len(record)} bytes are no record")
    message = _message(record[12:-4])
    value = _message(_bytes(_message(_bytes(message, 5)), 1))
    wall_time = message.get(1, b"")
    if len(wall_time) != 8:
        raise BadRecordError("it has no time")
    (seconds,) = struct.unpack("<d", wall_time)
    if not math.isfinite(seconds) or abs(seconds) > 9e9:
        raise BadRecordError(f"its time is {seconds}")
    return EventRecord(seconds, _bytes(value, 1).decode("utf-8", "replace"), _array(_bytes(value, 8)))


def _array(data: bytes) -> NDArray[Any]:
    tensor = _message(data)
    number = _integer(tensor.get(1, b"\0"))
    shape = []
    for field, size in _fields(tensor.get(2, b"")):
        if field == 2:
            shape.append(_integer(_message(size).get(1, b"\0")))
    if number in _TEXT:
        return _texts([text for field, text in _fields(data) if field == 8], shape)
    if number not in _DTYPES:
        raise BadRecordError(f"type {number} is not read")
    dtype = np.dtype(_DTYPES[number])
    content = tensor.get(4, b"")
    if len(shape) > _MOST_DIMENSIONS or math.prod(shape) * dtype.itemsize != len(content):
        raise BadRecordError(f"shape {shape[:8]} of {dtype} does not fit {len(content)} bytes")
    return np.frombuffer(content, dtype).reshape(shape)


def _texts(coded: list[bytes], shape: list[int]) -> NDArray[Any]:
    texts = [text.decode("utf-8", "replace") for text in coded]
    if len(shape) > _MOST_DIMENSIONS or math.prod(shape) != len(texts):
        raise BadRecordError(f"shape {shape[:8]} does not fit {len(texts)} texts")
    if 4 * len(texts) * max(map(len, texts), default=0) > _MOST_TEXT:
        raise BadRecordError(f"{len(texts)} texts take more than {_MOST_TEXT:,} bytes")
    return np.array(texts, dtype=np.str_).reshape(shape)


def _message(data: bytes) -> dict[int, bytes]:
    """Return the fields of a message as they are coded; of one that stands there often the last."""
    return dict(_fields(data))


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        begin = at
        if kind == 0:
            _, at = _varint(data, at)
        elif kind == 2:
            length, begin = _varint(data, at)
            at = begin + length
        elif kind in _LENGTHS:
            at += _LENGTHS[kind]
        else:
            raise BadRecordError(f"a field is coded as {kind}")
        if at > len(data):
            raise BadRecordError("a field reaches beyond its message")
        yield key >> 3, data[begin:at]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    try:
        return read_varint(data, at)
    except ValueError as error:
        raise BadRecordError(str(error)) from None


def _integer(data: bytes) -> int:
    return _varint(data, 0)[0]


def _bytes(message: dict[int, bytes], field: int) -> bytes:
    if field not in message:
        raise BadRecordError(f"field {field} is missing: it holds no tensor")
    return message[field]
