"""The import hook: called back once, after execution, with the module as anybody else would have it."""

import importlib
import importlib.util
import subprocess
import sys

import pytest

from holter.recorder.imports import ImportWatch


@pytest.fixture
def watch(tmp_path, monkeypatch):
    (tmp_path / "framework_of_test").mkdir()
    (tmp_path / "framework_of_test" / "__init__.py").write_text("from . import part\nready = True")
    (tmp_path / "framework_of_test" / "part.py").write_text("import sys")
    (tmp_path / "broken_of_test.py").write_text(
        "import os\nif os.environ.get('BREAK'): raise ImportError('broken')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    calls = []

    def called(name):
        calls.append((name, getattr(sys.modules[name], "ready", None)))

    found = ImportWatch({"framework_of_test": called, "broken_of_test": called})
    found.calls = calls
    sys.meta_path.insert(0, found)
    yield found
    sys.meta_path.remove(found)
    for name in list(sys.modules):
        if name.endswith("_of_test") or "_of_test." in name:
            del sys.modules[name]


def test_called_once_after_the_module_was_executed(watch):
    module = importlib.import_module("framework_of_test")
    importlib.import_module("framework_of_test")
    assert watch.calls == [("framework_of_test", True)]
    importlib.reload(module)
    assert watch.calls == [("framework_of_test", True)]


def test_the_module_looks_as_if_we_were_not_there(watch):
    module = importlib.import_module("framework_of_test")
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader"
    assert module.__loader__ is module.__spec__.loader
    assert "exec_module" not in vars(module.__spec__.loader)
    assert module.__spec__.origin.endswith("__init__.py")


def test_looking_for_a_module_does_not_count_as_importing_it(watch):
    assert importlib.util.find_spec("framework_of_test") is not None
    assert watch.calls == []
    importlib.import_module("framework_of_test")
    assert len(watch.calls) == 1


IMPORTS_WHAT_FAILS = """
import sys, warnings
from holter.recorder.imports import ImportWatch
if sys.argv[1] == "watched":
    sys.meta_path.insert(0, ImportWatch({"old_of_test": print, "failing_of_test": print}))
warnings.simplefilter("always")
import old_of_test
import failing_of_test
"""


def test_tracebacks_and_warnings_of_an_import_are_the_same(tmp_path):
    (tmp_path / "old_of_test.py").write_text("import warnings\nwarnings.warn('old', stacklevel=2)")
    (tmp_path / "failing_of_test.py").write_text("raise OSError('no library')")
    (tmp_path / "script.py").write_text(IMPORTS_WHAT_FAILS)
    said = [
        subprocess.run(
            [sys.executable, "script.py", how], cwd=tmp_path, capture_output=True, text=True, check=False
        ).stderr
        for how in ("alone", "watched")
    ]
    assert "script.py:7: UserWarning: old" in said[0]
    assert "raise OSError" in said[0]
    assert said[1] == said[0]


def test_an_import_that_fails_fails_as_ever_and_may_succeed_later(watch, monkeypatch):
    monkeypatch.setenv("BREAK", "1")
    with pytest.raises(ImportError, match="broken"):
        importlib.import_module("broken_of_test")
    assert watch.calls == []
    monkeypatch.delenv("BREAK")
    importlib.import_module("broken_of_test")
    assert watch.calls == [("broken_of_test", None)]


def test_a_module_that_is_not_there_is_not_found_as_ever(watch):
    watch.wanted["absent_of_test"] = lambda name: None
    with pytest.raises(ModuleNotFoundError, match="absent_of_test"):
        importlib.import_module("absent_of_test")
