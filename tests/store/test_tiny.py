"""The file of a very small job: every symbol, row and text comes back, and damage is named."""

from __future__ import annotations

import base64
import contextlib
import itertools
import math
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.schema.tables import TABLES
from holter.store import small, tiny
from holter.store.coder import Coder, Model
from holter.store.rows import DamagedError, Rows
from holter.store.walk import Walk

if TYPE_CHECKING:
    from numpy.typing import NDArray

ANY = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3), st.sampled_from([10**18, 10**18 + 1]))
COLUMNS = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.tuples(*[ANY] * width), min_size=1, max_size=30).map(
        lambda rows: [list(column) for column in zip(*rows, strict=True)]
    )
)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 2**79 - 1)), max_size=60))
def test_symbols_and_numbers_come_back(said: list[tuple[int, int, int]]) -> None:
    def walk(coder: Coder) -> list[tuple[int, int, int]]:
        model, out = Model(7), []
        for symbol, context, number in said:
            contexts = [(), context, (context, *out[-1:])]
            out.append((coder.symbol(model, contexts, symbol), context, coder.number([context], number)))
        return out

    writer = Coder()
    assert walk(writer) == said
    assert walk(Coder(writer.written())) == said


def test_what_repeats_takes_next_to_nothing_and_chance_takes_its_bits() -> None:
    random = np.random.default_rng(0)
    alike, chance = Coder(), Coder()
    models = Model(16), Model(16)
    for symbol in random.integers(0, 16, 2000).tolist():
        alike.symbol(models[0], [()], 3)
        chance.symbol(models[1], [()], symbol)
    assert len(alike.written()) < 20
    assert 1000 <= len(chance.written()) < 1050


def test_a_share_is_the_same_however_it_is_found() -> None:
    random = np.random.default_rng(1)
    model = Model(9)
    for symbol in random.integers(0, 9, 300).tolist():
        contexts = [(), symbol % 2, (symbol % 2, symbol % 3)]
        bounds = model.bounds(contexts)
        assert (bounds[0], bounds[-1]) == (0, 1 << 24)
        assert (np.diff(bounds) > 0).all()
        assert [model.share(contexts, one) for one in range(9)] == list(itertools.pairwise(bounds))
        model.count(contexts, symbol)


@given(COLUMNS, st.booleans())
def test_columns_come_back(columns: list[list[int]], lasting: bool) -> None:
    rows, width = len(columns[0]), len(columns)
    coder = Coder()
    writer = Walk(coder)
    for _ in range(2):  # the second knows the moments of the first
        writer.table(rows, width, columns, [False] * width, lasting=lasting and width > 1)
    reader = Walk(Coder(coder.written()))
    for _ in range(2):
        found, texts = reader.table(rows, width)
        assert (list(map(list, found)), texts) == (columns, [False] * width)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30), st.integers(0, 2)), min_size=2, max_size=40)
)
def test_begins_and_ends_come_back_nested_or_not(said: list[tuple[int, int, int]]) -> None:
    columns = [list(one) for one in zip(*sorted(said), strict=True)]
    coder = Coder()
    Walk(coder).table(len(said), 3, columns, [False] * 3, lasting=True)
    found, _ = Walk(Coder(coder.written())).table(len(said), 3)
    assert list(map(list, found)) == columns


def table(details: list[str]) -> Rows:
    """Return operators with so many details, one after the other."""
    count = len(details)
    columns: dict[str, NDArray[Any]] = {
        c.name: np.zeros(count, np.int64) for c in TABLES["operators"].columns
    }
    values = {c.name: ["x"] for c in TABLES["operators"].columns if c.type == "VARCHAR"}
    columns["time"], values["detail"] = 10**18 + 50 * np.arange(count), details
    columns["detail"] = np.arange(count)
    return Rows("operators", "n", columns, values)


def details_of(data: bytes) -> list[str]:
    ((one,), _) = small.unpacked(data)
    return [one.values["detail"][code] for code in one.columns["detail"].tolist()]


JSONS = [
    f'{{"a": {n}, "id 7": "{"xyz"[n % 3]}\\"{n}", "size": [0{n}, {n / 7!r}, -{n}e5]}}' for n in range(40)
]


@settings(max_examples=50)
@given(
    st.lists(
        st.text(alphabet='ab0129." :\\\1\2ü', max_size=12) | st.sampled_from(JSONS),
        min_size=1,
        max_size=60,
        unique=True,
    )
)
def test_texts_come_back_whatever_they_share(details: list[str]) -> None:
    assert details_of(small.packed([table(details)], {})) == details


def test_what_texts_share_is_written_once() -> None:
    details = [
        f'{{"stream": {n % 4}, "kind": "{"abc"[n % 3]}", "place": {1000 + 8 * n}}}' for n in range(500)
    ]
    data = small.packed([table(details)], {})
    assert details_of(data) == details
    assert len(data) < 300


def test_more_values_than_are_read_are_not_written() -> None:
    rows = math.isqrt(1 << 16) + 1
    with pytest.raises(ValueError, match="more values"):
        Walk(Coder()).table(rows, rows, [[0] * rows] * rows, [False] * rows)
    texts = [f'"{n}" ' * 40 for n in range(2000)]
    data = small.packed([table(texts)], {})
    assert not data.startswith(tiny.MAGIC)
    assert details_of(data) == texts


def test_damage_with_a_right_sum_is_named_or_gives_rows() -> None:
    """Whoever damages a file on purpose can make its sum right; nothing else must come of it."""
    data = small.packed([table(JSONS)], {"a": 1})
    head = len(tiny.MAGIC) + 4
    random = np.random.default_rng(3)
    for place in random.integers(head, len(data), 100).tolist():
        body = bytearray(data[head:])
        body[place - head] ^= 1 << int(random.integers(0, 8))
        with contextlib.suppress(DamagedError):
            small.unpacked(tiny.MAGIC + zlib.crc32(body).to_bytes(4, "little") + bytes(body))


WRITTEN_BEFORE = (
    "NK;BOkSX*zD77#BU@8Db1OOrj7Z`x64giMB@c<qStbWP1l~jcTi8Bb0NCvPUmwc|V)vCEu!{-`XtrV-I;B$?wR?M6jKG)c4_1Gjo"
    "GMOHiTvEw=3Pm(nq=GI|CH9LBe22R|k}uNDhld+?0w<^uu;SeE9k7+!HxO{$8bBk6Yx0u8x++=>X|AC(PVqZaiR%ds?Gyx|1~oK^"
    "J4iloyUBs&h&DrX7S?p^fN%gk`AHT^99rC}wO>Qk6F0h88<LJ4&DPS=Z|PjqyFk|pC!p#6K_mt`i<}JbfS2ZYj(C;^Kx*dO-pw-6"
    "%_34s`Khafuuv@|QO6KO(aj=KNpoURKx*dO_NO|tvwLkGOGMGlB2r1|gwf3+Qb}VvI<vETZ2`v3B2r2JBDO$k=G)B1UbC}%ZE(E1"
    "+X{hgx5Ez6%_34sZBVnbdu=b&_01wuN#(S|Kx*dOJ4l7dkHX0$kZ*blf$g`$6w%EhQb~A7v$K0`bNm#|B2q~jqy|80=G&u4$dAIw"
    "B*Qt|3W4pnh@%7B3W3{h?vane$t6XL+X{i(ZQH5MB2q~ZILME}$s|!*+X{hgx8~alf!l6EO^?FKCAoXs3W3{gTgjYE>t+br"
)
"""`small.packed([table(JSONS)], {"a": 1})`, as the first holter that had it wrote it."""


def test_a_file_written_before_stays_readable() -> None:
    """Neither the words nor how chances are reckoned may change under it."""
    assert details_of(base64.b85decode(WRITTEN_BEFORE)) == JSONS
