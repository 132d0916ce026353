"""Sums are compiled where there is a compiler, and only what nobody else could have made is loaded."""

from __future__ import annotations

import os

import pytest

from holter.recorder.tensors import sums


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("HOLTER_COMPILE", raising=False)
    sums.load.cache_clear()
    yield
    sums.load.cache_clear()


@pytest.fixture
def there(compiler_cache):
    if not compiler_cache or not sums.compiled():
        pytest.skip("no C compiler")


def test_it_is_compiled_once(there):
    made = os.stat(sums.path()).st_mtime_ns
    assert sums.compiled()
    assert os.stat(sums.path()).st_mtime_ns == made
    assert [one.name for one in sums.path().parent.iterdir()] == [sums.path().name]
    assert sums.load() is not None


def test_it_can_be_switched_off(there, monkeypatch):
    monkeypatch.setenv("HOLTER_COMPILE", "0")
    assert not sums.compiled()
    assert sums.load() is None


@pytest.mark.parametrize("place", ["file", "directory"])
def test_what_others_may_write_is_not_loaded(there, place):
    os.chmod(sums.path() if place == "file" else sums.path().parent, 0o777)
    assert sums.load() is None


def test_a_link_is_not_loaded(there, tmp_path):
    aside = tmp_path / "aside.so"
    sums.path().rename(aside)
    sums.path().symlink_to(aside)
    assert sums.load() is None


@pytest.mark.parametrize("compiler", ["", "no-such-compiler", "false", "'unbalanced"])
def test_without_a_compiler_nothing_is_there(compiler, monkeypatch):
    monkeypatch.setenv("CC", compiler)
    assert not sums.compiled()
    assert sums.load() is None


def test_a_damaged_file_is_passed_over(monkeypatch):
    sums.path().parent.mkdir(mode=0o700)
    sums.path().write_bytes(b"no library")
    sums.path().chmod(0o700)
    assert sums.load() is None
