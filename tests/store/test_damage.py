"""A store damaged by hand: the readable rows are read, the rest is named, nothing else is lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.strategies import bag, new_job, numbered, write

from holter.schema.tables import TABLES
from holter.store import job
from holter.store.compact import compact
from holter.store.follow import Follow
from holter.store.job import JobFolder
from holter.store.parquet import queries as parquet
from holter.store.trial import Trial


def files(folder: JobFolder, table: str = "scalars") -> list[Path]:
    return sorted((Path(folder.url) / table).rglob("*.parquet"))


def steps(folder: JobFolder) -> list[int]:
    return sorted(Trial(folder).table("scalars")["step"].tolist())


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.floats(0, 1, exclude_max=True), st.booleans())
def test_a_file_cut_anywhere_costs_only_its_own_rows(
    tmp_path_factory: pytest.TempPathFactory, where: float, asked: bool
) -> None:
    folder = new_job(tmp_path_factory.mktemp("store"))
    write(folder, "scalars", [numbered(0, 5), numbered(5, 5), numbered(10, 5)])
    trial = Trial(folder)
    if asked:  # the trial may have found it good before
        assert trial.table("scalars").rows == 15
    cut = files(folder)[1]
    data = cut.read_bytes()
    cut.write_bytes(data[: int(len(data) * where)])
    assert trial.table("scalars")["step"].tolist() == [*range(5), *range(10, 15)]
    assert [s["file"] for s in trial.skipped] == [str(cut.relative_to(folder.url))]
    assert trial.sql("SELECT count(*) AS n FROM scalars")["n"].tolist() == [10]
    follow = Follow(folder)
    assert follow.new("scalars").rows == 10
    assert follow.skipped == trial.skipped


def test_damage_inside_a_file_with_a_good_footer(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    write(folder, "scalars", [numbered(0, 500), numbered(500, 500)])
    bad = files(folder)[0]
    data = bytearray(bad.read_bytes())
    data[4:80] = b"\xff" * 76
    bad.write_bytes(data)
    trial = Trial(folder)
    assert trial.table("scalars")["step"].tolist() == list(range(500, 1000))
    assert [s["file"] for s in trial.skipped] == [str(bad.relative_to(folder.url))]
    assert Trial(folder).sql("SELECT count(DISTINCT time) AS n FROM scalars")["n"].tolist() == [500]
    with pytest.raises(ValueError, match="query failed"):
        Trial(folder).sql("SELECT error('my own mistake') FROM scalars")
    folder.update(end=1)
    compact(folder, min_files=2)
    assert bad.exists()
    assert steps(folder) == list(range(500, 1000))


def test_everything_that_is_not_ours(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    write(folder, "scalars", [numbered(0, 5), numbered(5, 5)])
    place = files(folder)[0].parent
    (place / "0000000000000000000-00000002-00000002.parquet").write_bytes(b"")
    (place / "0000000000000000000-00000003-00000003.parquet").mkdir()
    (place / "0000000000000000000-00000004-00000004.parquet").write_text("what is this " * 100)
    (place / "0000000000000000000-00000006-00000005.parquet").write_bytes(files(folder)[0].read_bytes())
    (place / "0000000000000000000-00000007-00000007.parquet").symlink_to(tmp_path / "nowhere")
    (place / "notes.txt").write_text("mine")
    (place / ".draft").write_text("not finished")
    connection = parquet.connect()
    parquet.copy(
        connection, "SELECT 1 AS a", place / "0000000000000000000-00000008-00000008.parquet", {"by": "x"}, {}
    )
    says = parquet.footer(TABLES["scalars"], "n0", 1, 1, 1)
    wrong = {
        9: {**says, "holter.schema": "2"},
        10: {**says, "holter.table": "spans"},
        11: {**says, "holter.rows": "many"},
    }
    for number, footer in wrong.items():
        name = f"0000000000000000000-{number:08d}-{number:08d}.parquet"
        parquet.copy(connection, "SELECT 1::BIGINT AS time", place / name, footer, {})
    shutil.copy(files(folder)[0], place.parent / "0000000000000000000-00000000-00000000.parquet")
    trial = Trial(folder)
    assert trial.table("scalars")["step"].tolist() == list(range(10))
    why = {skipped["file"].rsplit("/", 1)[1][20:28]: skipped["why"] for skipped in trial.skipped}
    assert "cannot be read" in why.pop("00000002")
    assert why.pop("00000003") == "is a folder"
    assert "cannot be read" in why.pop("00000004")
    assert "its name" in why.pop("00000006")
    assert "cannot be read" in why.pop("00000007")
    assert why.pop("00000008") == "was not written by holter"
    assert why.pop("00000009") == "has schema version 2; this holter reads 1"
    assert why.pop("00000010") == "holds table 'spans', not 'scalars'"
    assert why.pop("00000011") == "does not say how many rows it has"
    assert len(why) == 2  # notes.txt, and the copy in the wrong folder
    assert len(trial.skipped) == 11
    assert trial.sql("SELECT count(*) AS n FROM scalars")["n"].tolist() == [10]
    compact(folder, min_files=2)
    assert steps(folder) == list(range(10))


def test_a_newer_and_an_older_form_of_the_schema(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    write(folder, "scalars", [numbered(0, 5)])
    place = files(folder)[0].parent
    says = {**parquet.footer(TABLES["scalars"], "n0", 1, 1, 1), "holter.schema": "1.7"}
    parquet.copy(
        parquet.connect(),
        "SELECT 7::BIGINT AS time, 77::INTEGER AS step, 0::INTEGER AS rank, 'x' AS colour, 'l' AS name",
        place / "0000000000000000007-00000001-00000001.parquet",
        says,
        {},
    )
    parquet.copy(
        parquet.connect(),
        "SELECT 8::BIGINT AS time, 'text' AS step",
        place / "0000000000000000008-00000002-00000002.parquet",
        says,
        {},
    )
    trial = Trial(folder)
    read = trial.table("scalars").sorted("step")
    assert read["step"].tolist() == [0, 1, 2, 3, 4, 77]
    assert read["mode"].tolist()[-1] == ""
    assert "colour" not in read
    assert [s["file"][-16:] for s in trial.skipped] == ["00000002.parquet"]
    folder.update(end=1)
    compact(folder, min_files=2)
    assert bag(Trial(folder).table("scalars")) == bag(read)


def test_a_compacted_file_that_is_cut_does_not_hide_its_sources(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    write(folder, "scalars", [numbered(0, 5), numbered(5, 5)])
    sources = {path: path.read_bytes() for path in files(folder)}
    compact(folder, min_files=2)
    (wide,) = files(folder)
    wide.write_bytes(wide.read_bytes()[:-9])
    for path, data in sources.items():
        path.write_bytes(data)
    trial = Trial(folder)
    assert trial.table("scalars")["step"].tolist() == list(range(10))
    assert [s["file"] for s in trial.skipped] == [str(wide.relative_to(folder.url))]
    compact(folder, min_files=2)
    assert steps(folder) == list(range(10))


def test_a_file_that_says_another_number_of_rows_is_not_merged_away(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    write(folder, "scalars", [numbered(0, 5), numbered(5, 5)])
    lying = files(folder)[1]
    rows = f"SELECT * FROM read_parquet({parquet.literal(str(lying))})"
    draft = tmp_path / "lying.parquet"
    says = parquet.footer(TABLES["scalars"], "n0", 9, 5000, 9000)
    parquet.copy(parquet.connect(), rows, draft, says, {})
    draft.replace(lying)
    folder.update(end=1)
    assert compact(folder, min_files=2) == 0
    assert steps(folder) == list(range(10))


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00", '{"a": ' * 100_000, "nul"])
def test_documents_that_are_broken_are_missing_and_named(tmp_path: Path, text: str) -> None:
    folder = new_job(tmp_path)
    folder.write_node("n0", {"cpus": 4})
    write(folder, "scalars", [numbered(0, 5)])
    for name in ("job.json", "control.json", "evaluations.json", "nodes/n0.json"):
        (Path(folder.url) / name).write_text(text)
    again = job.find(str(tmp_path), "job")
    assert again.manifest() == {"name": "job"}
    assert (again.control(), again.evaluations(), again.nodes()) == ({}, {}, {"n0": {}})
    assert again.fault is not None
    trial = Trial(again)
    assert trial.table("scalars").rows == 5
    assert {s["file"] for s in trial.skipped} == {
        "job.json",
        "control.json",
        "evaluations.json",
        "nodes/n0.json",
    }
    assert [j.name for j in job.jobs(str(tmp_path)) if j.fault] == ["job"]


def test_a_manifest_of_another_version_or_none(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    manifest = json.loads((Path(folder.url) / "job.json").read_text())
    (Path(folder.url) / "job.json").write_text(json.dumps({**manifest, "schema": 2}))
    assert "schema version 2" in (job.find(str(tmp_path), "job").fault or "")
    (Path(folder.url) / "job.json").unlink()
    assert job.find(str(tmp_path), "job").fault == "job.json is missing"
