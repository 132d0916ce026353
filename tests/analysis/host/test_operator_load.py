"""Operators of profiled steps are counted without those inside of others, and lines come from samples."""

from __future__ import annotations

import json

import pytest
from tests.rules.tables import START
from tests.rules.traces import MS, US, Trace

from holter.analysis.host.operator_load import operator_load
from holter.schema.table import Table

FLOAT = json.dumps({"shapes": [[64, 8], [8, 8]], "types": ["float", "float"]})
DOUBLE = json.dumps({"shapes": [[64, 8], []], "types": ["double", "Scalar"]})
NUMBER = json.dumps({"shapes": [[64, 8], []], "types": ["float", "double"]})


def traced(steps: int = 2) -> Trace:
    trace = Trace()
    for step in range(steps):
        trace._add("spans", step * 10 * MS, 10 * MS, 0, phase="step", worker=-1, thread=0, step=step)
    return trace


def loaded(trace: Trace, samples=()):
    """Count the operators; samples are (name, ns, part)."""
    rows = [
        {"name": name, "time": START + at - 10, "duration": 10, "value": part} for name, at, part in samples
    ]
    return operator_load({**trace.tables, "stacks": Table.of("spans", rows)})


def test_small_and_large_operators_are_told_apart():
    trace = traced()
    for step in range(2):
        for at in range(100):
            trace.operator("aten::add", step * 10 * MS + at * 20 * US, 10 * US, detail=NUMBER)
        trace.operator("aten::linear", step * 10 * MS + 5 * MS, 4 * MS)
        trace.operator("aten::addmm", step * 10 * MS + 5 * MS + US, 3 * MS, detail=FLOAT)
    found = loaded(trace)
    assert (found.per_step, found.small_per_step, found.large_ms) == (101, 100, 4.0)
    assert (found.top.name, found.top.pct) == ("aten::addmm", pytest.approx(30))
    assert found.top.shapes == "[64, 8] x [8, 8]"
    assert found.double is None, "a plain number is no tensor"


def test_a_small_operator_that_waited_for_a_core_stays_small():
    trace = traced()
    for at in range(20):
        trace.operator("aten::add", at * 100 * US, (2 * MS if at == 19 else 10 * US))
    assert loaded(trace).large_ms == 0


def test_shapes_tell_operators_of_one_name_apart():
    trace = traced(1)
    for at in range(9):
        trace.operator("aten::linear", at * 20 * US, 10 * US, detail=FLOAT)
    trace.operator("aten::linear", 5 * MS, 4 * MS, detail=DOUBLE)
    found = loaded(trace)
    assert (found.small_per_step, found.large_ms) == (9, 4.0)
    assert (found.double.name, found.double.pct) == ("aten::linear", pytest.approx(40))


def test_lines_come_from_samples():
    trace = traced(1)
    trace.operator("aten::item", 1 * MS, 1 * MS)
    trace.operator("aten::sort", 4 * MS, 4 * MS)
    samples = [("f (a.py:3) > .item", MS + 100 * at * US, 0.0) for at in range(1, 4)]
    samples += [("main (a.py:9);g (a.py:6)", (4 * MS) + 100 * at * US, 4.0) for at in range(1, 6)]
    samples += [("main (a.py:9);g (a.py:7)", (5 * MS) + 100 * at * US, 4.0) for at in range(1, 4)]
    samples += [("main (a.py:12) > loss.backward", 9 * MS + at * US, 6.0) for at in range(50)]
    samples += [("main (a.py:5) > next", 100 * US + at * US, 2.0) for at in range(50)]  # waits for data
    found = loaded(trace, samples)
    assert (found.line.place, round(found.line.pct)) == ("g (a.py:6)", round(100 * 8 / 11))
    assert found.top.line.place == "g (a.py:6)"
    assert (found.items_per_step, found.item_line.place) == (1, "f (a.py:3)")
    assert found.print_line is None


def test_lines_of_the_script_itself_are_told_apart():
    samples = [("<module> (a.py:3) > f", MS + at * US, 0.0) for at in range(6)]
    samples += [("<module> (a.py:4) > g", 2 * MS + at * US, 0.0) for at in range(4)]
    trace = traced(1)
    trace.operator("aten::add", 1 * MS, 1 * MS)
    found = loaded(trace, samples)
    assert (found.line.place, round(found.line.pct)) == ("<module> (a.py:3)", 60)


def test_samples_in_small_operators_come_before_those_of_other_work():
    trace = traced(1)
    for at in range(12):
        trace.operator("aten::add", 1 * MS + at * 100 * US, 20 * US)
    samples = [("step (gym.py:3)", 5 * MS + at * US, 0.0) for at in range(50)]
    samples += [("loss (a.py:4) > add", 1 * MS + at * 100 * US + 15 * US, 0.0) for at in range(12)]
    assert loaded(trace, samples).line.place == "loss (a.py:4)"
    assert loaded(trace, samples[:-3]).line.place == "step (gym.py:3)", "nine samples are too few"


def test_lines_that_print_tensors_are_found():
    trace = traced(1)
    trace.operator("aten::abs", 1 * MS, 1 * MS)
    name = "main (a.py:9) > print > _str_intern (torch/_tensor_str.py:451)"
    found = loaded(trace, [(name, at * US, 0.0) for at in range(5)] + [("main (a.py:2)", 5 * US, 0.0)] * 5)
    assert (found.print_line.place, found.print_line.pct) == ("main (a.py:9)", pytest.approx(50))


def test_nothing_is_known_without_operators():
    assert loaded(traced()) is None
