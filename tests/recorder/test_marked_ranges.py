"""Ranges that a script marks for other tools: NVTX functions, and the names of SageMaker's profiler."""

from __future__ import annotations

from tests.recorder.reading import only, run

# The functions of the package `nvtx` that scripts call, with what they return.
STAND_IN = """
import functools

class annotate:
    def __init__(self, message=None, color=None, domain=None, category=None, payload=None):
        self.init_args = message, color, domain, category, payload
    def __enter__(self):
        said.append(("push", self.init_args[0]))
        return self
    def __exit__(self, kind, error, trace):
        said.append(("pop",))
        return False
    def __call__(self, function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            said.append(("push", self.init_args[0]))  # not by `__enter__`, as in the package
            try:
                return function(*args, **kwargs)
            finally:
                said.append(("pop",))
        return inner

said = []

def push_range(message=None, color="blue", domain=None, category=None, payload=None):
    said.append(("push", message))

def pop_range(domain=None):
    said.append(("pop",))

def start_range(message=None, color=None, domain=None, category=None, payload=None):
    said.append(("start", message))
    return len(said), 0

def end_range(range_id):
    said.append(("end",))
"""
SCRIPT = """
import nvtx
from nvtx.nvtx import said

@nvtx.annotate("decorated")
def decorated():
    return 7

@nvtx.annotate()
def unnamed():
    return decorated()

for number in range(3):
    nvtx.push_range(f"step_{number}")
    with nvtx.annotate("forward", color="red"):
        assert decorated() == 7
    nvtx.push_range(message="simulate")
    nvtx.pop_range()
    nvtx.pop_range()
first, second = nvtx.start_range("first"), nvtx.start_range(message="second")
nvtx.end_range(first)
nvtx.end_range(second)
assert unnamed() == 7
try:
    with nvtx.annotate("fails"):
        raise KeyError
except KeyError:
    pass
assert said[:4] == [("push", "step_0"), ("push", "forward"), ("push", "decorated"), ("pop",)], said[:4]
assert len(said) == 34, said
"""


def nvtx(folder):
    (folder / "nvtx").mkdir()
    names = "annotate, end_range, pop_range, push_range, start_range"
    (folder / "nvtx" / "__init__.py").write_text(f"from nvtx.nvtx import {names}\n")
    (folder / "nvtx" / "nvtx.py").write_text(STAND_IN)


def test_ranges_of_nvtx_are_steps_and_their_parts(spool, tmp_path):
    nvtx(tmp_path)
    done = run(spool, f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{SCRIPT}")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    process = only(spool)
    assert [one.step for one in process.spans("step")] == [0, 1, 2]
    assert [one.name for one in process.spans("forward")] == ["forward"] * 3
    names = [one.name for one in process.spans("compute")]
    assert names == [
        *(["decorated", "simulate"] * 3),
        *("first", "second", "decorated", "unnamed", "fails"),
    ]
    assert process.main.open == []


def test_without_a_recording_nvtx_stays_as_it_is(tmp_path):
    nvtx(tmp_path)
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{SCRIPT}\n"
    script += "assert not [name for name in sys.modules if name.startswith('holter')]"
    assert run(None, script).returncode == 0


def test_ranges_of_nvtx_beside_a_framework_are_annotations(spool, tmp_path):
    nvtx(tmp_path)
    script = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import torch, nvtx
with nvtx.annotate("step_1"), nvtx.annotate("forward"):
    torch.zeros(1)
"""
    assert run(spool, script).returncode == 0
    process = only(spool)
    assert [one.name for one in process.spans("annotation")] == ["forward", "step_1"]
    assert not process.spans("step")


def test_functions_of_torch_record_their_ranges(spool):
    script = """
import torch
nvtx = torch.cuda.nvtx
asked = []
class Library:  # what a build with CUDA has
    def rangePushA(self, text): asked.append(text); return 0
    def rangePop(self): asked.append(None); return 0
import torch.cuda.nvtx as functions
functions._nvtx = Library()
with nvtx.range("block"):
    nvtx.range_push("inner")
    nvtx.range_pop()
assert asked == ["block", "inner", None, None], asked
"""
    done = run(spool, script)
    assert done.returncode == 0, done.stderr
    assert [one.name for one in only(spool).spans("annotation")] == ["inner", "block"]


def test_functions_of_torch_fail_as_before(spool):
    script = """
import torch
try:
    torch.cuda.nvtx.range_push("x")
except RuntimeError as error:
    print("refused")
"""
    done = run(spool, script)
    if done.stdout:  # a build without CUDA
        assert done.stdout == "refused\n"
        assert not list(spool.glob("*.seg"))


def test_names_of_sagemakers_profiler_are_steps_and_their_parts(spool):
    script = """
from holter.compat import smppy
for number in range(2):
    with smppy.annotate(f"step_{number}"):
        with smppy.annotate("Forward"):
            pass
        loss = smppy.annotation_begin("Loss")
        smppy.annotation_end(loss)
        with smppy.annotate("Rollout"):
            pass
"""
    done = run(spool, script)
    assert done.returncode == 0, done.stderr
    process = only(spool)
    assert len(process.spans("step")) == 2
    assert len(process.spans("forward")) == len(process.spans("loss")) == 2
    assert [one.name for one in process.spans("compute")] == ["Rollout", "Rollout"]
