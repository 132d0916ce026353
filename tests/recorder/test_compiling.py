"""C is compiled where that can be; where it cannot, the build says why, and Python's own serves."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.builds import STRICT
from tests.builds import build as built
from tests.recorder.reading import edges, pythons

from holter.recorder.frameworks.pytorch.stepping import step_hooks
from holter.recorder.spool import hotpath
from holter.schema import compiled

ROOT = Path(__file__).parents[2]


@pytest.fixture
def build():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path, build):
    for source in (*build.HOTPATH, *build.FUNCTIONS):
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, tmp_path / source)
    return tmp_path


def found(checkout):
    return {
        str(path.relative_to(checkout)) for path in checkout.rglob("*.*") if path.suffix not in (".c", ".h")
    }


def test_it_is_compiled_and_of_the_interface_that_python_knows(checkout, build):
    made, failed = build.compiled(checkout)
    if build.COMPILED not in made:
        pytest.skip(f"cannot be compiled here: {failed}")
    assert found(checkout) == set(made)  # no draft is left
    spec = importlib.util.spec_from_file_location(
        "holter.recorder.native._hotpath", checkout / build.COMPILED
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.INTERFACE == hotpath.INTERFACE
    twins = {
        "SpanWriter": hotpath.SpanWriter,
        "StepCounter": hotpath.StepCounter,
        "ThreadState": step_hooks.ThreadState,
        "StepHooks": step_hooks.StepHooks,
    }
    asked = {"read_loss", "woken"} | {
        f"{what}_{of}" for what in ("begin", "end") for of in ("next", "call", "pass")
    }
    for name, twin in twins.items():
        theirs = {one for one in (*vars(twin), *twin.__annotations__) if not one.startswith("__")}
        assert theirs - asked <= set(dir(getattr(module, name)))


@pytest.mark.parametrize("version", edges())
def test_no_compiler_warns_of_anything(tmp_path, version):
    if shutil.which(os.environ.get("CC", "cc").split()[0]) is None:
        pytest.skip("there is no C compiler here")
    _, failed = built(tmp_path, pythons()[version], STRICT)
    if "no Python.h" in failed:
        pytest.skip(failed)
    assert failed == ""


def test_functions_are_loaded_if_they_were_made_from_what_is_there(checkout, build, monkeypatch):
    made, failed = build.compiled(checkout)
    if failed:
        pytest.skip(f"cannot be compiled here: {failed}")
    sources = [checkout / one for one in build.FUNCTIONS]
    assert {str(compiled.path(one).relative_to(checkout)) for one in sources} < set(made)
    assert all(compiled.load(one) for one in sources)
    sources[0].write_text(sources[0].read_text() + "\n")
    assert compiled.load(sources[0]) is None
    again, _ = build.compiled(checkout)
    assert compiled.load(sources[0])
    assert found(checkout) == set(again)  # the older one is gone
    sources[1].write_text(sources[1].read_text() + "\n")
    compiled.path(sources[1]).write_bytes(b"no library")
    assert compiled.load(sources[1]) is None
    assert compiled.load(checkout / "gone.c") is None
    monkeypatch.setenv("HOLTER_COMPILE", "0")
    assert compiled.load(sources[0]) is None


@pytest.mark.parametrize(
    ("compiler", "said"),
    [("no-such-compiler", "no-such-compiler"), ("false", "ended with 1"), ("'", "quotation")],
)
def test_without_a_compiler_it_says_so_and_keeps_what_is_there(checkout, build, monkeypatch, compiler, said):
    monkeypatch.setenv("CC", compiler)
    (checkout / build.COMPILED).write_bytes(b"before")
    made, failed = build.compiled(checkout)
    assert not made
    for source, why in zip(build.FUNCTIONS, failed[1:], strict=True):
        assert why.startswith(source)
        assert said in why
    assert found(checkout) == {build.COMPILED}
    assert (checkout / build.COMPILED).read_bytes() == b"before"


def test_it_can_be_switched_off():
    code = (
        "from holter.recorder.spool import hotpath, thread_spool\n"
        "from holter.recorder.native import sums\n"
        "from holter.importers.kineto import scanning\n"
        "print(thread_spool.SpanWriter is hotpath.SpanWriter, sums.compiled(), scanning.compiled())"
    )
    env = {**os.environ, "HOLTER_COMPILE": "0", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True None False"
