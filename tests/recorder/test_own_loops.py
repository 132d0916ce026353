"""`holter.phase` and `holter.steps` in a loop of the user's own: recorded, and without any recording."""

import asyncio
import subprocess
import sys
import time

import pytest
from tests.recorder.reading import environment, only

import holter


def recorded(spool):
    return [(one.phase, one.name, one.step) for one in only(spool).main.spans]


def test_names_of_parts_are_parts_and_other_names_are_computed(session, spool):
    for name in ("simulate", "data_loading", "Forward", "host to device", "checkpoint", "h2d"):
        with holter.phase(name):
            pass
    assert [(phase, name) for phase, name, _ in recorded(spool)] == [
        ("compute", "simulate"),
        ("data_loading", "data_loading"),
        ("forward", "Forward"),
        ("compute", "host to device"),
        ("checkpoint", "checkpoint"),
        ("h2d", "h2d"),
    ]


def test_a_phase_is_a_decorator_and_nests(session, spool):
    @holter.phase("inner")
    def inner(value):
        return value + 1

    with holter.phase("outer"):
        assert (inner(1), inner(2)) == (2, 3)
    assert [name for _, name, _ in recorded(spool)] == ["inner", "inner", "outer"]
    assert only(spool).main.open == []


def test_phases_of_tasks_overlap(session, spool):
    async def task(name, seconds):
        with holter.phase(name):
            await asyncio.sleep(seconds)

    async def main():
        await asyncio.gather(task("long", 0.03), task("short", 0.01))

    asyncio.run(main())
    assert [(phase, name) for phase, name, _ in recorded(spool)] == [
        ("compute", "short"),
        ("compute", "long"),
    ]


def test_each_iteration_is_a_step_and_waiting_for_it_is_data_loading(session, spool):
    def batches():
        for number in range(3):
            time.sleep(0.01)
            yield number

    seen = []
    for batch in holter.steps(batches()):
        with holter.phase("work"):
            seen.append(batch)
    assert seen == [0, 1, 2]
    process = only(spool)
    steps = process.spans("step")
    assert [one.step for one in steps] == [0, 1, 2]
    waits = [one for one in process.spans("data_loading") if one.name == "next batch"]
    assert [one.step for one in waits] == [0, 1, 2, 3]  # the last one learns that there is no more
    assert all(one.duration >= 9_000_000 for one in waits[:3])
    assert [one.step for one in process.spans("compute")] == [0, 1, 2]
    assert all(one.duration >= 9_000_000 for one in steps)


def test_what_is_iterated_over_keeps_its_length_and_its_errors(session, spool):
    assert len(holter.steps([1, 2, 3])) == 3
    with pytest.raises(TypeError):
        len(holter.steps(iter([1])))
    with pytest.raises(ValueError, match=r"mode 'trian' of holter\.steps is not known"):
        holter.steps([], mode="trian")

    def broken():
        yield 1
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        list(holter.steps(broken()))
    assert [one.step for one in only(spool).spans("step")] == [0]
    assert only(spool).main.open == []
    assert session.fault_counts == {}


def test_break_ends_the_last_step(session, spool):
    for number in holter.steps(range(10)):
        if number == 3:
            break
    assert [one.step for one in only(spool).spans("step")] == [0, 1, 2, 3]


def test_an_adapters_boundaries_do_not_count_beside_iterated_steps(session, spool):
    for _ in holter.steps(range(2)):
        session.boundary()
    assert len(only(spool).spans("step")) == 2


def test_a_recording_that_ends_within_the_loop_leaves_the_loop_alone(session, spool):
    seen = []
    for number in holter.steps(range(4)):
        seen.append(number)
        if number == 1:
            session.close()
    assert seen == [0, 1, 2, 3]
    assert len(only(spool).spans("step")) == 1


OWN_LOOP = """
import sys
before = set(sys.modules)
import holter

@holter.phase("called")
def called(value):
    return value

@holter.annotate("plain")
def plain(value):
    return value

seen = []
for batch in holter.steps([1, 2]):
    with holter.step(), holter.phase("work"), holter.annotate("part"):
        seen.append(called(plain(batch)))
    holter.annotation_begin("a")
    holter.annotation_end("a")
    holter.log(loss=1.0)
assert seen == [1, 2], seen
assert len(holter.steps([1, 2])) == 2
for wrong in (lambda: holter.step("trian"), lambda: holter.steps([], "trian"), lambda: holter.step(steps=0)):
    assert "holter.recorder.session" not in sys.modules or wrong
print(*sorted(name for name in set(sys.modules) - before if name.startswith("holter")))
"""


def test_without_a_recording_nothing_of_the_recorder_is_loaded():
    kept = {name: value for name, value in environment().items() if not name.startswith("HOLTER_")}
    done = subprocess.run(
        [sys.executable, "-c", OWN_LOOP], env=kept, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == [
        "holter",
        "holter.recorder",
        "holter.recorder.unrecorded",
        "holter.schema",
        "holter.schema.modes",
    ]


def test_without_a_recording_wrong_arguments_are_still_errors():
    program = """
import holter
for wrong in (
    lambda: holter.step("trian"), lambda: holter.steps([], "trian"), lambda: holter.step(steps=0),
    lambda: holter.log(mode="trian"),
):
    try:
        wrong()
    except ValueError as error:
        print(error)
"""
    kept = {name: value for name, value in environment().items() if not name.startswith("HOLTER_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=kept, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.count("\n") == 4, done.stdout + done.stderr


def test_functions_taken_before_a_recording_record_once_it_begins(tmp_path):
    program = """
import os, sys
from holter import annotate, log, phase, step, steps

@phase("called")
def called():
    pass

@annotate("generated")
def generated():
    yield 1

called()
for _ in steps(range(5)):
    pass
import holter.recorder.session as sessions
session = sessions.Session(sys.argv[1])
session.install()
called()
list(generated())
for _ in steps(range(2)):
    with phase("work"):
        log(loss=2.0)
with step():
    pass
"""
    spool = tmp_path / "spool"
    spool.mkdir()
    kept = {name: value for name, value in environment().items() if not name.startswith("HOLTER_")}
    subprocess.run([sys.executable, "-c", program, str(spool)], env=kept, check=True, timeout=60)
    process = only(spool)
    assert [one.name for one in process.spans("compute")] == ["called", "work", "work"]
    assert [one.name for one in process.spans("annotation")] == ["generated"]
    assert len(process.spans("step")) == 3
    assert len(process.spans("scalar")) == 2


def test_epochs_of_a_script_are_recorded(session, spool):
    for _ in range(2):
        for _ in holter.steps([1, 2, 3]):
            with holter.phase("work"):
                pass
    process = only(spool)
    assert [one.step for one in process.spans("step")] == list(range(6))
    assert len(process.spans("compute")) == 6
