"""Rows survive the trip through files, for every table, however they were given and cut."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.strategies import bag, columns, new_job, numbered, rows, write

from holter.schema.table import Table, repeats
from holter.schema.tables import TABLES
from holter.store.compact import compact
from holter.store.trial import Trial
from holter.store.writer import Writer

SOME = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("table", TABLES)
def test_rows_survive(table: str) -> None:
    @SOME
    @given(st.lists(rows(table), max_size=4))
    def survive(pieces: list) -> None:
        with tempfile.TemporaryDirectory() as where:
            folder = new_job(Path(where))
            expected = write(folder, table, pieces, node="n/ 0'")
            read = Trial(folder).table(table)
            assert bag(read) == bag(expected)
            assert {n: c.dtype for n, c in read.columns.items()} == {
                n: c.dtype for n, c in expected.columns.items()
            }
            assert np.all(read["time"][1:] >= read["time"][:-1])
            assert Trial(folder).skipped == []

    survive()


@SOME
@given(rows("spans"), st.data())
def test_reading_is_the_same_however_rows_were_cut_and_ordered(every: list, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(every)), max_size=5)))
    edges = [0, *cuts, len(every)]
    pieces = [every[a:b] for a, b in pairwise(edges)]
    pieces = data.draw(st.permutations(pieces))
    with tempfile.TemporaryDirectory() as where:
        one, many = new_job(Path(where), "one"), new_job(Path(where), "many")
        write(one, "spans", [every])
        write(many, "spans", pieces)
        expected = bag(Trial(one).table("spans"))
        assert bag(Trial(many).table("spans")) == expected
        compact(many, min_files=2)
        assert bag(Trial(many).table("spans")) == expected


def test_text_given_as_codes_reads_like_text(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    writer = Writer(folder, "n0")
    codes = np.array([2, 0, 0, 2], dtype=np.uint8)
    writer.append("spans", {"time": [1, 2, 3, 4], "phase": (codes, ["forward", "unused", "loss"])})
    writer.append(
        "spans", {"time": [5, 6], "phase": ["unused", "loss"], "name": np.array(["a", None], dtype=object)}
    )
    writer.close()
    spans = Trial(folder).table("spans")
    assert spans["phase"].tolist() == ["loss", "forward", "forward", "loss", "unused", "loss"]
    assert spans["name"].tolist() == ["", "", "", "", "a", ""]
    assert np.isnan(spans["value"]).all()
    assert set(spans["worker"].tolist()) == {-1}


def test_many_distinct_texts(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    names = [f"name {n}" for n in range(30_000)]
    writer = Writer(folder, "n0")
    writer.append("spans", {"time": np.arange(30_000), "name": names})
    writer.close()
    assert Trial(folder).table("spans")["name"].tolist() == names


def test_text_that_is_no_unicode_is_kept_readable(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    writer = Writer(folder, "n0")
    writer.append("events", {"time": [1], "kind": ["fault"], "name": ["file \udcff.py"], "detail": ["{}"]})
    assert writer.close(), writer.fault
    assert Trial(folder).table("events")["name"].tolist() == ["file ?.py"]


def test_a_range_of_time_columns_and_a_condition(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    write(folder, "scalars", [numbered(0, 50), numbered(50, 50)], node="a")
    write(folder, "scalars", [numbered(40, 20)], node="b")
    read = Trial(folder).table(
        "scalars", columns=["step", "node"], start_ns=45_000, end_ns=48_000, where="node = 'b' OR step = 46"
    )
    assert sorted(zip(read["step"].tolist(), read["node"].tolist(), strict=True)) == [
        (45, "b"),
        (46, "a"),
        (46, "b"),
        (47, "b"),
    ]
    assert list(read.columns) == ["step", "node"]


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    trial = Trial(new_job(tmp_path))
    for table in TABLES:
        assert trial.table(table).rows == 0
        assert {n: c.dtype for n, c in trial.table(table).columns.items()} == {
            n: c.dtype for n, c in Table.empty(table).columns.items()
        }
    assert trial.sql("SELECT count(*) AS n FROM spans")["n"].tolist() == [0]


def test_sql_sees_all_tables_and_nothing_else(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    write(folder, "scalars", [numbered(0, 5)], node="a")
    write(folder, "scalars", [numbered(5, 5)], node="b")
    trial = Trial(folder)
    found = trial.sql(
        "SELECT node, sum(step) AS total, max(NULL::INT) AS none FROM scalars GROUP BY node ORDER BY node"
    )
    assert found["node"].tolist() == ["a", "b"]
    assert found["total"].tolist() == [10, 35]
    assert np.isnan(found["none"].astype(float)).all()
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for query in (
        f"SELECT * FROM read_csv('{tmp_path}/secret.csv')",
        f"COPY (SELECT 1) TO '{folder.url}/evil.csv'",
        "SELECT 1; SELECT 2",
        "DROP VIEW scalars",
        "SELECT nothing FROM scalars",
        "SELEC",
    ):
        with pytest.raises(ValueError, match=r"query|one SELECT"):
            trial.sql(query)
    assert trial.sql("SELECT count(*) AS n FROM scalars")["n"].tolist() == [10]


def test_mistakes_are_named(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    writer, trial = Writer(folder, "n0"), Trial(folder)
    with pytest.raises(KeyError, match="no table 'span'; there are: samples, spans"):
        writer.append("span", {})
    with pytest.raises(KeyError, match="has no column 'colour'"):
        writer.append("spans", {"time": [1], "colour": ["red"]})
    with pytest.raises(ValueError, match="differ in length"):
        writer.append("spans", {"time": [1, 2], "duration": [1]})
    with pytest.raises(ValueError, match="rows of node"):
        writer.append("spans", {"time": [1], "node": ["n1"]})
    with pytest.raises(ValueError, match="no int32"):
        writer.append("spans", {"time": [1], "rank": [2.5]})
    with pytest.raises(ValueError, match="codes reach"):
        writer.append("spans", {"time": [1], "phase": ([3], ["a"])})
    assert writer.waiting == 0
    with pytest.raises(KeyError, match="no table 'x'"):
        trial.table("x")
    with pytest.raises(KeyError, match="no column 'x'"):
        trial.table("spans", columns=["x"])
    write(folder, "scalars", [numbered(0, 5)])
    with pytest.raises(ValueError, match="condition 'colour = 1'"):
        trial.table("scalars", where="colour = 1")
    with pytest.raises(ValueError, match=r"condition .* on table"):
        trial.table("scalars", where="name::INTEGER = 1")
    assert trial.skipped == []


def test_columns_of_a_table_can_be_written_back(tmp_path: Path) -> None:
    folder, copy = new_job(tmp_path), new_job(tmp_path, "copy")
    write(folder, "scalars", [numbered(0, 5)])
    read = Trial(folder).table("scalars")
    writer = Writer(copy, "n0")
    writer.append("scalars", read.columns)
    writer.close()
    assert bag(Trial(copy).table("scalars")) == bag(read)
    assert columns([]) == {}


def test_numbers_that_repeat_are_read_as_they_were_written(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    count = 20_000
    for compiled in (7, 8):
        writer = Writer(folder, f"n{compiled}")
        for number in range(2):
            time = np.arange(count) + number * count
            parts = {"compile": np.full(count, compiled), "eval": np.full(count, number)}
            writer.append("steps", {"time": time, **parts})
            writer.flush()
        writer.close()
    for merged in (False, True):
        if merged:
            compact(folder, min_files=2)
        steps = Trial(folder).table("steps", columns=("node", "compile", "eval", "other"))
        assert steps.rows == 4 * count
        for compiled in (7, 8):
            assert set(steps["compile"][steps["node"] == f"n{compiled}"].tolist()) == {compiled}
        assert steps["eval"].sum() == 2 * count
        assert not steps["other"].any()
        only = Trial(folder).table("steps", columns=("compile", "eval"), where="node = 'n7' AND eval = 1")
        assert (only.rows, set(only["compile"].tolist()), set(only["eval"].tolist())) == (count, {7}, {1})
        assert repeats(only["compile"]) == merged
        assert not repeats(only["eval"])
