"""Messages of Protocol Buffers: what is written is read back, and a damaged message is refused."""

from __future__ import annotations

import struct

import pytest
from google.protobuf.wrappers_pb2 import Int64Value, StringValue

from holter.schema import protobuf
from holter.schema.varint import BadMessageError


def test_fields_of_every_kind_are_read_back():
    message = (
        protobuf.number_field(1, -5)
        + protobuf.double_field(2, 0.5)
        + protobuf.float_field(300, 1e39)
        + protobuf.text_field(4, "größe")
    )
    (one, number), (two, double), (three, single), (four, text) = protobuf.fields(memoryview(message))
    assert (one, two, three, four) == (1, 2, 300, 4)
    assert protobuf.signed(number) == -5
    assert struct.unpack("<d", protobuf.content(double)) == (0.5,)
    assert struct.unpack("<f", protobuf.content(single)) == (float("inf"),)
    assert protobuf.text(text) == "größe"


def test_fields_are_read_as_googles_library_writes_them():
    ((_, number),) = protobuf.fields(memoryview(Int64Value(value=-(1 << 40)).SerializeToString()))
    ((_, text),) = protobuf.fields(memoryview(StringValue(value="x" * 300).SerializeToString()))
    assert protobuf.signed(number) == -(1 << 40)
    assert protobuf.text(text) == "x" * 300


def test_a_value_of_another_kind_is_empty():
    assert protobuf.signed(memoryview(b"text")) == 0
    assert bytes(protobuf.content(7)) == b""


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"\x0b", "coded as 3"), (b"\x0a\x05ab", "beyond"), (b"\x09\0\0", "beyond"), (b"\x08", "no end")],
)
def test_a_damaged_message_is_refused(data, why):
    with pytest.raises(BadMessageError, match=why):
        list(protobuf.fields(memoryview(data)))
