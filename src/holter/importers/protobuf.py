"""Read messages of protocol buffers field by field, without their definitions: bounded, nothing copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.schema.varint import read_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

Value = int | memoryview
"""A whole number, unsigned, or the bytes of eight, of four or of as many as the message says."""


class BadMessageError(ValueError):
    """The bytes are no message."""


def fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field of a message; raises `BadMessageError` where it is damaged."""
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key > 127:
            key, at = varint(data, at - 1)
        kind = key & 7
        if kind == 0:
            number = data[at] if at < end else 0
            if number < 128 and at < end:
                at += 1
            else:
                number, at = varint(data, at)
            yield key >> 3, number
            continue
        if kind == 2:
            length, at = varint(data, at)
        elif kind == 1:
            length = 8
        elif kind == 5:
            length = 4
        else:
            raise BadMessageError(f"a field is coded as {kind}")
        if length > end - at:
            raise BadMessageError("a field reaches beyond its message")
        yield key >> 3, data[at : at + length]
        at += length


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return a number and the place behind it."""
    try:
        return read_varint(data, at)
    except ValueError as error:
        raise BadMessageError(str(error)) from None


def whole(value: Value) -> int:
    """Return a signed number; 0 for a field of another kind."""
    if not isinstance(value, int):
        return 0
    return value - (1 << 64) if value >= 1 << 63 else value


def message(value: Value) -> memoryview:
    """Return the bytes of a field; none when it holds a number."""
    return memoryview(b"") if isinstance(value, int) else value


def text(value: Value) -> str:
    """Return a field's text."""
    return bytes(message(value)).decode("utf-8", "replace")
