"""Annotations reach NVTX, a library compiled here, when a tool says that it listens; and only then."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.recorder.reading import environment, only, run

CODE = """
import asyncio
import holter
@holter.annotate("called")
def called():
    pass
with holter.annotate("outer"):
    called()
holter.annotation_begin("a")
holter.annotation_begin("b")
holter.annotation_end("a")
holter.annotation_end()
async def task(name):
    with holter.annotate(name):
        await asyncio.sleep(0)
async def main():
    await asyncio.gather(task("x"), task("y"))
asyncio.run(main())
"""
SAID = """\
push outer 0
push called 0
pop - 0
pop - 0
start a 1
start b 2
end - 1
end - 2
start x 3
start y 4
end - 3
end - 4
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler is here to build an NVTX library")
    folder = tmp_path_factory.mktemp("nvtx")
    source = Path(__file__).with_name("nvtx.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", folder / "libnvToolsExt.so.1", source], check=True, timeout=60
    )
    return folder


def listening(library, log, spool=None):
    more = {"NVTX_INJECTION64_PATH": "tool.so", "LD_LIBRARY_PATH": library, "NVTX_LOG": log}
    return environment(spool) | {name: str(value) for name, value in more.items()}


def test_a_tool_hears_of_every_range_and_the_record_is_the_same(library, spool, tmp_path):
    log = tmp_path / "log"
    done = run(spool, CODE, env=listening(library, log, spool))
    assert (done.returncode, done.stderr) == (0, "")
    assert log.read_text() == SAID
    names = [span.name for span in only(spool).main.spans]
    assert names == ["called", "outer", "a", "b", "x", "y"]


def test_no_tool_hears_nothing(library, spool, tmp_path):
    log = tmp_path / "log"
    env = listening(library, log, spool)
    del env["NVTX_INJECTION64_PATH"]
    assert run(spool, CODE, env=env).returncode == 0
    assert not log.exists()


def test_without_the_library_it_is_told_once_and_the_script_goes_on(spool, tmp_path):
    done = run(spool, CODE, env=listening(tmp_path, tmp_path / "log", spool))
    assert done.returncode == 0
    assert done.stderr.count("annotations do not reach NVTX") == 1
    assert len(only(spool).main.spans) == 6
