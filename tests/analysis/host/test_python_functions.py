"""Functions and flame graphs from rows of cProfile and of samples."""

from __future__ import annotations

import pytest

from holter.analysis.host.python_functions import (
    DEEPEST,
    Call,
    Function,
    MixedTimers,
    calls,
    flame_of_stacks,
    functions,
    functions_of_stacks,
    place,
)
from holter.schema.table import Table

LOAD, READ = "Data.load (/a b/data.py:12)", "<built-in method read>"


def called(*rows, timer="total_time"):
    names = ("function", "calls", "primitive_calls", "total_time", "self_time")
    return Table.of(
        "python_functions", [dict(zip(names, row, strict=True)) | {"timer": timer} for row in rows]
    )


def sampled(*rows):
    names = ("stack", "samples", "self_time")
    return Table.of("python_stacks", [dict(zip(names, row, strict=True)) for row in rows])


def test_rows_of_one_function_add_up_and_the_longest_comes_first():
    rows = called((LOAD, 2, 1, 100, 10), (READ, 2, 2, 90, 90), (LOAD, 1, 1, 40, 40))
    assert functions(rows) == [Function(READ, 90, 90, 2, 2), Function(LOAD, 50, 140, 3, 2)]
    assert functions(Table.empty("python_functions")) == []


def test_times_of_different_timers_are_never_added_up():
    both = Table.concat([called((LOAD, 1, 1, 1, 1)), called((LOAD, 1, 1, 1, 1), timer="cpu_time")])
    with pytest.raises(MixedTimers, match="cpu_time, total_time do not add up"):
        functions(both)


def test_who_called_whom():
    names = ("caller", "function", "calls", "primitive_calls", "total_time", "self_time")
    rows = [(LOAD, READ, 1, 1, 50, 50), (READ, LOAD, 1, 1, 90, 1), (LOAD, READ, 2, 2, 45, 45)]
    table = Table.of("python_calls", [dict(zip(names, row, strict=True)) for row in rows])
    assert calls(table) == [Call(LOAD, READ, 3, 95, 95), Call(READ, LOAD, 1, 90, 1)]


def test_samples_count_a_function_once_however_often_it_is_in_a_stack():
    rows = sampled(("f;g;f", 2, 20), ("f;g", 1, 10), ("", 1, 5), ("h", 3, 30))
    assert functions_of_stacks(rows) == [
        Function("h", 30, 30, samples=3),
        Function("f", 20, 30, samples=2),
        Function("g", 10, 30, samples=1),
    ]


def test_a_flame_graph_adds_up():
    flame = flame_of_stacks(sampled(("f;g;f", 2, 20), ("f;g", 1, 10), ("h", 3, 30)))
    assert flame.total_ns == 60
    assert flame.to_json() == {
        "name": "all",
        "value": 60,
        "children": [
            {
                "name": "f",
                "value": 30,
                "children": [{"name": "g", "value": 30, "children": [{"name": "f", "value": 20}]}],
            },
            {"name": "h", "value": 30},
        ],
    }


def test_a_flame_graph_may_be_deep():
    deep = ";".join(f"f{level}" for level in range(5000))
    at, levels = flame_of_stacks(sampled((deep, 1, 7))).to_json(), 0
    while at.get("children"):
        assert at["value"] == 7
        at, levels = at["children"][0], levels + 1
    assert (at["name"], levels) == (f"f{DEEPEST - 1}", DEEPEST)


def test_where_a_function_is():
    assert place(LOAD) == ("/a b/data.py", 12, "Data.load")
    assert place(READ) == ("~", 0, READ)
    assert place("<lambda> (<string>:1)") == ("<string>", 1, "<lambda>")
    assert place("") == ("~", 0, "")
