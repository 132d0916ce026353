"""One compiled file serves every Python from 3.11 on, whichever of them it was compiled under."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.builds import build
from tests.recorder.reading import edges, environment, only, pythons, run

EDGES = edges()
pytestmark = pytest.mark.skipif(
    len(EDGES) < 2, reason=f"needs a Python beside {EDGES[0]} to compile under, from 3.11 on"
)
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"

BEGIN = """
import sys
import holter
from holter.recorder import session
from holter.recorder.native import _hotpath
from holter.recorder.spool import thread_spool
from holter.schema.windows import ProfilingOrder, Request
assert thread_spool.SpanWriter is _hotpath.SpanWriter, "the compiled hot path is not in use"
sys.stdout.write(_hotpath.__file__ + chr(10))
CONSTANTS = (None, True, False)
def references():
    return [sys.getrefcount(one) for one in CONSTANTS]
def window(*profilers):
    session.current.windows.take(ProfilingOrder(tuple(Request(one, steps=2) for one in profilers)))
"""
PLAIN = """
def step(number):
    with holter.step():
        with holter.annotate("work"):
            holter.annotation_begin("inner")
            holter.annotation_end("inner")
        holter.log(loss=number)
    session.current.boundary(manual=True)
    if number % 500 == 0:
        window("python")
"""
TORCH = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
loader = torch.utils.data.DataLoader([torch.ones(2)] * 2000)
holter.watch(model, save=["weights"], every=500)
def batches():
    while True:
        yield from loader
batches = batches()
def step(number):
    optimizer.zero_grad()
    model(next(batches)).sum().backward()
    optimizer.step()
    if number % 2000 == 0:
        window("python", "operators")
    if number % 500 == 0:
        holter.save_tensor("by hand", torch.ones(3))
"""
COUNT = """
import json
for number in range(2000):
    step(number)
before = references()
for number in range(2000, 20000):
    step(number)
session.current.windows.wait()
print(json.dumps([after - early for after, early in zip(references(), before)]))
"""


@pytest.fixture(scope="module", params=EDGES)
def library(request, tmp_path_factory):
    """The hot path, compiled under another Python."""
    checkout = tmp_path_factory.mktemp(f"compiled-{request.param}")
    source, failed = build(checkout, pythons()[request.param])
    if "span_writer.c" in failed:
        pytest.skip(f"Python {request.param} cannot compile here: {failed}")
    return source / "holter/recorder/native/_hotpath.abi3.so"


def lost(library: Path, spool: Path, version: str, training: str) -> list[int]:
    """Return by how much the references of None, True and False grew in 18,000 steps."""
    env = environment(spool, PYTHONPATH=library.parents[1] / "bootstrap")
    done = run(spool, BEGIN + training + COUNT, python=pythons()[version], env=env)
    assert (done.returncode, done.stderr) == (0, "")
    loaded, counts = done.stdout.splitlines()
    assert loaded == str(library)
    return json.loads(counts)


@pytest.mark.parametrize("version", EDGES)
def test_none_keeps_its_references_whoever_compiled_it(library, spool, version):
    grown = lost(library, spool, version, PLAIN)
    assert [abs(one) < 1000 for one in grown] == [True] * 3, grown
    process = only(spool)
    assert process.main.step >= 39_000
    windows = process.facts("window")
    assert len(windows) == 40
    assert not [one for one in windows if "refused" in one]


def test_a_training_with_saves_and_windows_keeps_them_too(library, spool):
    pytest.importorskip("torch")
    grown = lost(library, spool, HERE, TORCH)
    assert [abs(one) < 1000 for one in grown] == [True] * 3, grown
    process = only(spool)
    assert process.main.step >= 19_000
    windows = process.facts("window")
    assert {one["profiler"] for one in windows if "refused" not in one} == {"python", "operators"}
    assert list(spool.glob("*.safetensors")) or list(spool.glob("*.tensors*"))
