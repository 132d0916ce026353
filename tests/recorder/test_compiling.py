"""The hot path is compiled where that can be; where it cannot, it says why, and Python's own serves."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holter.recorder import hotpath

ROOT = Path(__file__).parents[2]


@pytest.fixture
def build():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path, build):
    (tmp_path / build.PEN).parent.mkdir(parents=True)
    shutil.copy(ROOT / build.PEN, tmp_path / build.PEN)
    return tmp_path


def test_it_is_compiled_and_of_the_interface_that_python_knows(checkout, build):
    why = build.compiled(checkout)
    if why:
        pytest.skip(f"cannot be compiled here: {why}")
    made = checkout / build.COMPILED
    assert made.is_file()
    assert {path.name for path in made.parent.iterdir()} == {"pen.c", made.name}  # no draft is left
    spec = importlib.util.spec_from_file_location("holter.recorder._pen", made)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.INTERFACE == hotpath.INTERFACE
    theirs = {name for name in vars(hotpath.Pen) if not name.startswith("__")} - {"rare"}
    assert theirs <= set(dir(module.Pen))


@pytest.mark.parametrize(
    ("compiler", "said"), [("no-such-compiler", "no-such-compiler"), ("false", "ended with 1")]
)
def test_without_a_compiler_it_says_so_and_keeps_what_is_there(checkout, build, monkeypatch, compiler, said):
    monkeypatch.setenv("CC", compiler)
    (checkout / build.COMPILED).write_bytes(b"before")
    assert said in build.compiled(checkout)
    assert (checkout / build.COMPILED).read_bytes() == b"before"


def test_it_can_be_switched_off():
    code = "from holter.recorder import hotpath, marks; print(marks.Pen is hotpath.Pen)"
    env = {**os.environ, "HOLTER_COMPILE": "0", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
