"""A small job's rows in one file: what was given comes back, damage is named, old files stay readable."""

from __future__ import annotations

import base64
import dataclasses
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from holter.schema.tables import TABLES
from holter.store import job, layout, small, tiny
from holter.store.rows import DamagedError, Rows, words, zstd
from holter.store.trial import Trial

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

EXTREMES = np.array([-(2**63), 2**63 - 1, 0, -1, 1, 2**62, -(2**62), 127, 128, -129])


def rows(table: str, count: int, seed: int = 0) -> Rows:
    """Return rows of a table in which each column is of another shape."""
    random = np.random.default_rng(seed)
    columns: dict[str, NDArray[Any]] = {}
    values: dict[str, list[str]] = {}
    for number, column in enumerate(TABLES[table].columns):
        if column.type == "VARCHAR":
            values[column.name] = ["", "aten::add", f"{column.name} ü", "not used", "x" * 300]
            columns[column.name] = random.integers(0, 3, count)
        elif column.type in ("DOUBLE", "FLOAT"):
            columns[column.name] = np.where(random.random(count) < 0.3, np.nan, random.normal(size=count))
        else:
            most = {"SMALLINT": 2**15, "INTEGER": 2**31, "BIGINT": 2**62}[column.type]
            columns[column.name] = [
                np.sort(random.integers(-most, most, count)),
                np.full(count, -1),
                random.integers(0, 5, count),
            ][number % 3]
    return Rows(table, "import", columns, values)


def texts(one: Rows, name: str) -> list[str]:
    return [one.values[name][code] for code in one.columns[name].tolist()]


def same(given: Rows, found: Rows) -> None:
    assert (given.table, given.node) == (found.table, found.node)
    for name, column in given.columns.items():
        if name in given.values:
            assert texts(given, name) == texts(found, name)
        else:
            assert np.array_equal(column, found.columns[name], equal_nan=column.dtype.kind == "f")


BOTH = pytest.mark.parametrize("count", [50, 2500], ids=["tiny", "small"])
"""Rows of a file in either way."""


@pytest.mark.parametrize("count", [1, 2, 7, 100, 1000])
def test_what_was_given_comes_back(count: int) -> None:
    given = [rows(table, count, seed) for seed, table in enumerate(TABLES)]
    data = small.packed(given, {"files": {"a": "ü"}})
    assert data.startswith(tiny.MAGIC) == (count * len(TABLES) <= tiny.MOST_ROWS)
    found, document = small.unpacked(data)
    assert document == {"files": {"a": "ü"}}
    for one, other in zip(given, found, strict=True):
        same(one, other)


def test_all_numbers_that_there_are() -> None:
    one = rows("launches", len(EXTREMES))
    one.columns["correlation"][:] = EXTREMES  # type: ignore[index]
    ((found), _) = small.unpacked(small.packed([one], {}))
    assert found[0].columns["correlation"].tolist() == EXTREMES.tolist()


@BOTH
def test_damage_is_named_whatever_it_is(count: int) -> None:
    data = small.packed([rows("kernels", count), rows("tracks", 4)], {"a": 1})
    for length in range(0, len(data), len(data) // 300):
        with pytest.raises(DamagedError):
            small.unpacked(data[:length])
    random = np.random.default_rng(1)
    for place in random.integers(0, len(data), 300).tolist():
        changed = bytearray(data)
        changed[place] ^= 1 << int(random.integers(0, 8))
        with pytest.raises(DamagedError):  # the frame has a checksum
            small.unpacked(bytes(changed))


def test_a_bomb_is_refused() -> None:
    data = zstd.compress(bytes(1 << 27), level=1, zstd_dict=words())
    for head in (small._MAGIC, tiny.MAGIC + zlib.crc32(data).to_bytes(4, "little")):
        with pytest.raises(DamagedError, match="more than any small job"):
            small.unpacked(head + data)


@BOTH
def test_other_columns_than_those_known_are_refused(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = small.packed([rows("launches", count), rows("syncs", 3)], {})
    schema = TABLES["launches"]
    other = dataclasses.replace(schema, columns=(*schema.columns[1:], schema.columns[0]))
    monkeypatch.setitem(TABLES, "launches", other)
    with pytest.raises(DamagedError, match="'launches' has other columns"):
        small.unpacked(data)
    # A table that only a newer holter knows is passed over.
    monkeypatch.delitem(TABLES, "launches")
    found, _ = small.unpacked(data)
    assert [one.table for one in found] == ["syncs"]


def test_a_reader_reads_it_and_names_it_when_it_cannot(tmp_path: Path) -> None:
    folder = job.create(str(tmp_path), "a", command=[], interval_ms=500, rules=[], now_ns=1)
    one = rows("launches", 20)
    folder.place.write(layout.SMALL, small.packed([one], {"ranks": {"f": 3}}))
    folder.update(imported={})
    trial = Trial(folder)
    assert trial.imported == {"ranks": {"f": 3}}
    assert trial.sql("SELECT count(*) AS n FROM launches")["n"].tolist() == [20]
    assert trial.table("launches")["time"].tolist() == np.sort(one.columns["time"]).tolist()
    assert len(trial.table("kernels")) == 0
    assert trial.skipped == []
    folder.place.write(layout.SMALL, b"HSJ1 and no more")
    broken = Trial(folder)
    assert len(broken.table("launches")) == 0
    assert [one["file"] for one in broken.skipped] == [layout.SMALL]


KEPT = Rows(
    "launches",
    "import",
    {
        "time": np.array([10**18, 10**18 + 1500, 10**18 + 2900]),
        "duration": np.array([7000, 6500, 2**40]),
        "rank": np.full(3, 5),
        "thread": np.array([-1, 17, 17]),
        "step": np.array([1, 1, 2]),
        "name": np.array([0, 1, 0]),
        "correlation": np.array([100, 101, 102]),
    },
    {"name": ["cudaLaunchKernel", "hipMemcpyAsync"]},
)
WRITTEN_BEFORE = (
    "NK;BND77#BB!m?M0E7fP0001z#0-0VeUX@`rUM7f9iqet1Oos8m<<X60|NpB1CauNfS~sDtlQulxEJshux-d?fItcX"
    "A|e6;1ONg60szR$%m8Qy0C2Y+n2N5r0^xAMXLlXUeOL12e^KKJ<(cL"
)
"""`small.packed([KEPT], {"files": {}})`, as the first holter that had it wrote it."""


def test_a_file_written_before_stays_readable() -> None:
    """Neither the words that compression begins with nor the columns of tables may change under it."""
    found, document = small.unpacked(base64.b85decode(WRITTEN_BEFORE))
    assert document == {"files": {}}
    same(KEPT, found[0])
