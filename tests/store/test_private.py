"""Who may read what is stored, and that no link in a store leads out of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holter.store import job
from holter.store.place import LocalPlace
from holter.store.trial import Trial
from holter.store.writer import Writer


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def made(store: Path) -> job.JobFolder:
    folder = job.create(str(store), "a", command=["true"], interval_ms=500, rules=[], now_ns=1)
    folder.write_node("n", {"cpus": 1})
    writer = Writer(folder, "n")
    writer.append("scalars", {"time": [1], "rank": [0], "step": [0], "name": ["loss"], "value": [1.0]})
    writer.close()
    folder.update(status="Completed")
    return folder


def modes(folder: Path) -> tuple[set[int], set[int]]:
    """Return the permissions of the folders and of the files below a folder, itself included."""
    found = [folder, *folder.rglob("*")]
    told = [(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in found]
    return {mode for is_dir, mode in told if is_dir}, {mode for is_dir, mode in told if not is_dir}


def test_a_job_is_its_owners_alone(tmp_path, umask):
    store = tmp_path / "store"
    made(store)
    assert modes(store) == ({0o700}, {0o600})


def test_a_store_that_was_there_shares_nothing_by_itself(tmp_path, umask):
    store = tmp_path / "store"
    store.mkdir()
    store.chmod(0o755)
    made(store)
    assert modes(store / "a") == ({0o700}, {0o600})


def test_a_store_of_a_group_passes_its_permissions_on(tmp_path, umask):
    store = tmp_path / "store"
    store.mkdir()
    store.chmod(0o2750)
    made(store)
    assert modes(store / "a") == ({0o2750}, {0o640})


@pytest.fixture
def outside(tmp_path):
    found = tmp_path / "home"
    found.mkdir()
    (found / "private").write_text('{"hush": 1}')
    return found


def test_no_link_out_of_the_store_is_read(tmp_path, outside):
    folder = made(tmp_path / "store")
    path = tmp_path / "store/a"
    for name in ("control.json", "evaluations.json"):
        (path / name).symlink_to(outside / "private")
    assert (folder.control(), folder.evaluations()) == ({}, {})
    assert any("leads out of the store" in fault for fault in folder.faults)
    (part,) = (entry.key for entry in folder.place.files("scalars"))
    moved = outside / "0.parquet"
    (path / part).rename(moved)
    (path / part).symlink_to(moved)
    trial = Trial(folder)
    assert trial.table("scalars").rows == 0
    assert "leads out of the store" in trial.skipped[0]["why"]
    (path / "tensors").symlink_to(outside)
    assert [e.key for e in folder.place.files() if e.key.startswith("tensors/")] == []


def test_nothing_is_written_through_a_link(tmp_path, outside):
    folder = made(tmp_path / "store")
    path = tmp_path / "store/a"
    (path / "evaluations.json").symlink_to(outside / "private")
    (path / "tiles").symlink_to(outside)
    folder.write_evaluations({"rules": []})
    assert (outside / "private").read_text() == '{"hush": 1}'
    for write in (
        lambda: folder.place.write("tiles/a.bin", b"x"),
        lambda: folder.place.delete("tiles/private"),
    ):
        with pytest.raises(OSError, match="leads out of the store"):
            write()
    assert [one.name for one in outside.iterdir()] == ["private"]
    (tmp_path / "store/b").symlink_to(outside)
    with pytest.raises(OSError, match="leads out of the store"):
        LocalPlace(tmp_path / "store").below("b").write("job.json", b"x")
    linked = next(one for one in job.jobs(str(tmp_path / "store")) if one.name == "b")
    assert "leads out of the store" in str(linked.fault)


def test_links_inside_of_the_store_and_to_it_are_followed(tmp_path):
    made(tmp_path / "store")
    (tmp_path / "link").symlink_to(tmp_path / "store")
    (tmp_path / "store/b").symlink_to(tmp_path / "store/a")
    assert job.find(str(tmp_path / "link"), "b").manifest()["status"] == "Completed"


def test_a_pipe_is_not_waited_for(tmp_path):
    folder = made(tmp_path / "store")
    os.mkfifo(tmp_path / "store/a/control.json")
    assert folder.control() == {}
    assert any("is not a regular file" in fault for fault in folder.faults)
