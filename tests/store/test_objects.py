"""The same store on every shelf: a folder, real servers of S3 and Azure, the client's own memory and disk."""

from __future__ import annotations

from pathlib import Path

import obstore.store
import pytest
from tests.azurite import Azurite
from tests.gateway import Gateway
from tests.store.strategies import bag, columns, numbered, write

from holter.store import job
from holter.store.compact import compact
from holter.store.follow import Follow
from holter.store.job import JobExists, JobFolder, JobNotFound
from holter.store.layout import part_key
from holter.store.objects import ObjectPlace
from holter.store.place import LocalPlace, Place
from holter.store.prune import prune
from holter.store.trial import Trial
from holter.store.writer import Writer


@pytest.fixture(params=["folder", "s3", "azure", "memory", "client"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Each kind of place, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if request.param == "folder":
        return LocalPlace(tmp_path / "store").below("job")
    if request.param == "s3":
        gateway: Gateway = request.getfixturevalue("gateway")
        for name, value in gateway.variables.items():
            monkeypatch.setenv(name, value)
        return ObjectPlace.open(f"{gateway.bucket()}/deep/store").below("job")
    if request.param == "azure":
        azurite: Azurite = request.getfixturevalue("azurite")
        for name, value in azurite.variables.items():
            monkeypatch.setenv(name, value)
        return ObjectPlace.open(f"{azurite.container()}/deep/store").below("job")
    if request.param == "memory":
        return ObjectPlace(obstore.store.MemoryStore(), "", f"memory:{tmp_path}").below("job")
    (tmp_path / "store").mkdir()
    store = obstore.store.LocalStore(prefix=str(tmp_path / "store"))
    return ObjectPlace(store, "", f"client:{tmp_path}").below("job")


def test_what_every_place_does(place: Place) -> None:
    assert place.folders() == place.files() == place.files("spans") == []
    place.create()
    place.write("job.json", b"1", new=True)
    with pytest.raises(FileExistsError):
        place.write("job.json", b"2", new=True)
    with pytest.raises(FileExistsError):
        place.create()
    assert place.read("job.json") == b"1"
    place.write("job.json", b"3")
    assert place.read("job.json") == b"3"
    with pytest.raises(FileNotFoundError):
        place.read("nothing.json")
    key = part_key("spans", "n/ 1%ü", 5, 0, 0)
    draft = place.draft(key)
    draft.write_bytes(b"rows")
    assert place.files("spans") == []
    place.add(key, draft)
    assert not draft.exists()
    (entry,) = place.files("spans")
    assert (entry.key, entry.size) == (key, 4)
    again = place.draft(key)
    again.write_bytes(b"others")
    with pytest.raises(FileExistsError):
        place.add(key, again)
    assert place.local(entry).read_bytes() == b"rows"
    assert place.local(entry) == place.local(entry)
    assert place.changed_ns() > 0
    assert sorted(e.key for e in place.files()) == ["job.json", key]
    assert place.folders() == ["spans"]
    with place.lock("spans"):
        place.delete(key)
    place.delete(key)
    with pytest.raises(FileNotFoundError):
        place.local(entry._replace(stamp="other")).read_bytes()
    place.destroy()
    assert place.files() == []


def test_a_job_in_every_place(place: Place) -> None:
    folder = JobFolder(place, "job")
    place.create()
    folder.write_evaluations({})
    expected = write(folder, "scalars", [numbered(0, 5), numbered(5, 5), numbered(10, 5)], node="n/1")
    follow, trial = Follow(folder), Trial(folder)
    assert bag(follow.new("scalars")) == bag(trial.table("scalars")) == bag(expected)
    assert compact(folder, min_files=3) == 3
    assert len(place.files("scalars")) == 1
    assert follow.new("scalars").rows == 0
    assert bag(trial.table("scalars")) == bag(expected)
    assert trial.sql("SELECT sum(step) AS s FROM scalars")["s"].tolist() == [sum(range(15))]
    assert trial.skipped == [] or trial.skipped[0]["file"] == "job.json"


def test_an_object_that_is_damaged_costs_only_its_rows(place: Place) -> None:
    folder = JobFolder(place, "job")
    place.create()
    write(folder, "scalars", [numbered(0, 5), numbered(5, 5)])
    entry = place.files("scalars")[0]
    place.write(entry.key, place.read(entry.key)[:-5])
    trial = Trial(folder)
    assert trial.table("scalars").rows == 5
    assert [s["file"] for s in trial.skipped] == [entry.key]


def test_jobs_by_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    url = f"memory://{tmp_path}"
    folder = job.create(url, "a", command=["true"], interval_ms=500, rules=[], now_ns=1)
    with pytest.raises(JobExists, match="'a-2' is free"):
        job.create(url, "a", command=["true"], interval_ms=500, rules=[], now_ns=1)
    job.create(url, "b", command=["true"], interval_ms=500, rules=[], now_ns=2)
    writer = Writer(folder, "n0")
    writer.append("scalars", columns(numbered(0, 3)))
    assert writer.close(), writer.fault
    assert [j.name for j in job.jobs(url)] == ["b", "a"]
    assert Trial(job.at(f"{url}/a")).table("scalars").rows == 3
    with pytest.raises(JobNotFound, match="near names: a"):
        job.find(url, "aa")
    folder.update(end=1)
    assert [p.name for p in prune(url, keep=1)] == ["a"]
    assert [j.name for j in job.jobs(url)] == ["b"]
