"""Varints: what is written is read back, and what has no end is refused."""

from __future__ import annotations

import pytest
from google.protobuf.wrappers_pb2 import UInt64Value
from hypothesis import example, given
from hypothesis import strategies as st

from holter.schema.varint import read_varint, varint

WHOLE = st.one_of(st.integers(-(1 << 63), (1 << 64) - 1), st.integers(0, 1 << 15))


@given(WHOLE, st.binary(max_size=3), st.binary(max_size=3))
@example((1 << 64) - 1, b"", b"")
@example(-1, b"", b"")
@example((1 << 14) - 1, b"", b"")
@example(1 << 14, b"", b"")
def test_both_directions(number, before, after):
    written = varint(number)
    assert read_varint(before + written + after, len(before)) == (
        number % (1 << 64),
        len(before) + len(written),
    )
    assert len(written) == max(1, -(-(number % (1 << 64)).bit_length() // 7))


@given(st.integers(0, (1 << 64) - 1))
def test_as_another_writes_and_reads_them(number):
    assert UInt64Value(value=number or 1).SerializeToString() == varint(1 << 3) + varint(number or 1)
    assert UInt64Value.FromString(varint(1 << 3) + varint(number)).value == number


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\x80" * 10 + b"\x01"])
def test_a_number_without_an_end_is_refused(data):
    with pytest.raises(ValueError, match="no end"):
        read_varint(memoryview(data), 0)
