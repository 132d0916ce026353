"""The cache of computed results: private, bounded, of one state of a job, and never required."""

from __future__ import annotations

import os
import stat

import pytest

from holter.store import cache
from holter.store.job import create
from holter.store.writer import Writer

NOW = 1_700_000_000_000_000_000


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def job(tmp_path, name):
    return create(str(tmp_path / "store"), name, command=[], interval_ms=500, rules=[], now_ns=NOW)


def add(folder):
    writer = Writer(folder, "n0")
    writer.append("samples", {"time": [NOW], "metric": ["cpu.util"], "device": [""], "value": [1.0]})
    writer.close()


def test_an_entry_is_private_and_of_one_state_of_a_job(tmp_path):
    folder = job(tmp_path, "a")
    add(folder)
    assert cache.entry(folder) is None
    made = cache.entry(folder, make=True)
    made.write("result", b"1")
    assert cache.entry(folder).read("result") == b"1"
    for path in (cache.root(), made.path, made.path / "result"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    add(folder)
    assert cache.entry(folder) is None
    cache.entry(folder, make=True)
    assert not made.path.exists(), "a job has one entry"
    folder.place.destroy()
    again = job(tmp_path, "a")
    assert cache.entry(again) is None, "another job of the same name"


def test_the_least_recently_used_entries_go_first(tmp_path):
    folders = [job(tmp_path, name) for name in "abcd"]
    for age, folder in enumerate(folders[:3]):
        place = cache.entry(folder, make=True)
        place.write("result", bytes(1000))
        os.utime(place.path, ns=(NOW + age, NOW + age))
    assert cache.entry(folders[0]) is not None  # which is a use
    cache.entry(folders[3], make=True, most_bytes=2500)
    assert [cache.entry(folder) is not None for folder in folders] == [True, False, True, True]


def test_a_folder_that_cannot_be_used_means_no_cache(tmp_path, monkeypatch):
    folder = job(tmp_path, "a")
    (tmp_path / "file").write_text("")
    for home in (tmp_path / "file", "relative", tmp_path / "with*wildcard"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(home))
        assert cache.entry(folder, make=True) is None
        assert cache.entry(folder) is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache.entry(folder, make=True) is not None
    cache.root().chmod(0o777)
    assert cache.entry(folder) is None, "other users can write to it"
