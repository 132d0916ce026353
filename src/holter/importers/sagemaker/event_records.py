"""Read tensors out of records of event files, as smdebug writes them: bounded, for untrusted files."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.schema.protobuf import Value, content, fields, signed, text
from holter.schema.varint import BadMessageError

if TYPE_CHECKING:
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
"""Numpy's names by TensorFlow's numbers of types. bfloat16 (14) is not supported."""
_TEXT = (0, 7)
"""smdebug writes texts without their type."""
_MOST_TEXT = 1 << 28
"""Bytes that an array of texts may take: each takes as much as the longest."""

_MOST_DIMENSIONS = 32


class EventRecord(NamedTuple):
    """One tensor of one step."""

    wall_time: float
    tag: str
    array: NDArray[Any]


def event(record: bytes) -> EventRecord:
    """Read one framed record. Its checksums are ignored: smdebug writes a constant there.

    Raises:
        BadMessageError: The record is damaged, or holds no tensor that is supported; the text says how.
    """
    if len(record) < 16 or struct.unpack("<Q", record[:8])[0] != len(record) - 16:
        raise BadMessageError(f"{len(record)} bytes are no record")
    message = dict(fields(memoryview(record)[12:-4]))
    value = _message(_message(message, 5), 1)
    wall_time = content(message.get(1, 0))
    if len(wall_time) != 8:
        raise BadMessageError("it has no time")
    (seconds,) = struct.unpack("<d", wall_time)
    if not math.isfinite(seconds) or abs(seconds) > 9e9:
        raise BadMessageError(f"its time is {seconds}")
    return EventRecord(seconds, text(_field(value, 1)), _array(content(_field(value, 8))))


def _array(data: memoryview) -> NDArray[Any]:
    tensor = dict(fields(data))
    sizes = [dict(fields(content(size))) for field, size in fields(content(tensor.get(2, 0))) if field == 2]
    shape = [signed(size.get(1, 0)) for size in sizes]
    if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise BadMessageError(f"shape {shape[:8]} is no shape")
    number = signed(tensor.get(1, 0))
    if number in _TEXT:
        return _texts([text(value) for field, value in fields(data) if field == 8], shape)
    if number not in _DTYPES:
        raise BadMessageError(f"type {number} is not supported")
    dtype = np.dtype(_DTYPES[number])
    elements = content(tensor.get(4, 0))
    if math.prod(shape) * dtype.itemsize != len(elements):
        raise BadMessageError(f"shape {shape[:8]} of {dtype} does not fit {len(elements)} bytes")
    return np.frombuffer(elements, dtype).reshape(shape)


def _texts(texts: list[str], shape: list[int]) -> NDArray[Any]:
    if math.prod(shape) != len(texts):
        raise BadMessageError(f"shape {shape[:8]} does not fit {len(texts)} texts")
    if 4 * len(texts) * max(map(len, texts), default=0) > _MOST_TEXT:
        raise BadMessageError(f"{len(texts)} texts take more than {_MOST_TEXT:,} bytes")
    return np.array(texts, dtype=np.str_).reshape(shape)


def _message(message: dict[int, Value], field: int) -> dict[int, Value]:
    return dict(fields(content(_field(message, field))))


def _field(message: dict[int, Value], field: int) -> Value:
    if field not in message:
        raise BadMessageError(f"field {field} is missing: it holds no tensor")
    return message[field]
