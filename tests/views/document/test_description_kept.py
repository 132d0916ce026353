"""What is kept of a description is the description, and is believed only while it is, of its own writer."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.cli.conftest import told

from holter.store import cache, job
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.document import description, description_kept
from holter.views.document.description import describe


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def one(store):
    return told("before", str(store), ranks=2, cores=2)[0]


@pytest.fixture
def folder(one, store, tmp_path, monkeypatch):
    """A job of its own that has ended, whose description is kept however small it is; a user of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(description_kept.write, "__kwdefaults__", {"worth": 1})
    shutil.copytree(store / "before", tmp_path / "store" / "one")
    folder = job.find(str(tmp_path / "store"), "one")
    folder.update(status="Completed", end=folder.manifest()["start"] + 600 * 10**9)
    return folder


def kept(folder):
    return description_kept.read(Trial(folder))


def test_what_is_kept_is_what_is_computed_and_nothing_is_computed_again(folder, monkeypatch):
    assert kept(folder) is None
    first = describe(Trial(folder))
    assert {**kept(folder), "bill": None} == first
    json.dumps(first)  # plain through and through, as it comes back
    monkeypatch.setattr(description, "_described", None)
    assert describe(Trial(folder)) == first
    assert describe(Trial(folder), price=3.0)["bill"]["price"] == 3.0
    folder.update(verdict={"headline": "what the card says"}, usage={"lost": []}, step_course=[1.0])
    folder.order(watched=1)
    assert describe(Trial(folder)) == first, "neither the verdict nor an order changes the job"


def test_it_counts_only_while_the_job_and_holter_stay_the_same(folder, monkeypatch, tmp_path):
    describe(Trial(folder))
    place = cache.entry(folder)
    data = place.read("description.json")
    for damaged in (b"", data[:-1], b"[" * 9999, b"null", b"{}", b'{"of": 1}'):
        place.write("description.json", damaged)
        assert kept(folder) is None
    place.write("description.json", data)
    assert kept(folder) is not None
    with monkeypatch.context() as patch:
        patch.setattr("holter.__version__", "99")
        description_kept._code.cache_clear()
        assert kept(folder) is None
    description_kept._code.cache_clear()
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
        assert kept(folder) is None, "another user has another cache"
    folder.update(status="Failed")
    assert kept(folder) is None
    describe(Trial(folder))
    folder.write_evaluations({"rules": []})
    assert kept(folder) is None
    describe(Trial(folder))
    writer = Writer(folder, "n9")
    writer.append("samples", {"time": [10**18], "metric": ["cpu.util"], "device": [""], "value": [1.0]})
    writer.close()
    assert kept(folder) is None


def test_a_reader_writes_nothing_into_the_store_and_believes_nothing_that_lies_there(folder, tmp_path):
    before = folder.place.files()
    whole = describe(Trial(folder))
    assert folder.place.files() == before
    folder.place.write("description.json", json.dumps({"of": None, "told": {"bill": "forged"}}).encode())
    shutil.rmtree(tmp_path / "cache")
    assert {**describe(Trial(folder)), "cost": whole["cost"]} == whole


def test_a_running_or_damaged_job_and_a_small_one_and_a_home_without_room_keep_nothing(
    folder, monkeypatch, tmp_path
):
    monkeypatch.setattr(description_kept.write, "__kwdefaults__", {"worth": 10**9})
    whole = describe(Trial(folder))
    assert kept(folder) is None
    monkeypatch.setattr(description_kept.write, "__kwdefaults__", {"worth": 1})
    (tmp_path / "file").write_text("")
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        assert describe(Trial(folder)) == whole
    assert kept(folder) is None
    folder.update(status="InProgress", end=None)
    describe(Trial(folder))
    folder.update(status="Completed", end=whole["job"]["end"])
    assert kept(folder) is None
    parts = sorted(entry.key for entry in folder.place.files("samples"))
    folder.place.write(parts[0], b"PAR1 and nothing of it")
    assert describe(Trial(folder))["skipped"]
    assert kept(folder) is None
