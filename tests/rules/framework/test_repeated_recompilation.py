"""Tests of the rule RepeatedRecompilation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.rules.tables import SECOND, START, found, look

from holter.rules.framework.repeated_recompilation import RepeatedRecompilation
from holter.schema.table import Table


def compiled(count: int, *, seconds: float = 4.0, function: str = "train_step", **about: Any) -> Table:
    """Make the events of a function that is compiled so many times, for ever shorter batches."""
    rows = []
    for at in range(count):
        detail = {"step": 10 * at, "function": function, "number": at + 1, "seconds": seconds, "jitted": True}
        if at:
            shapes = {"before": f"float32[{65 - at},3]", "after": f"float32[{64 - at},3]"}
            detail |= {"change": "shape", "argument": "batch['x']", "more": 0, **shapes}
        detail = json.dumps(detail | about)
        row = {"time": START + at * SECOND, "rank": 0, "kind": "compiled", "name": "", "detail": detail}
        rows.append(row)
    return Table.of("events", rows)


@pytest.mark.parametrize(
    ("count", "severity"), [(1, None), (3, None), (4, "info"), (6, "warning"), (31, "critical")]
)
def test_a_function_that_is_compiled_again_and_again(count, severity):
    issues = found(RepeatedRecompilation(), events=compiled(count))
    assert [one.severity for one in issues] == ([severity] if severity else [])
    if severity:
        assert issues[0].evidence["recompilations"] == count - 1
        (cause,) = issues[0].evidence["causes"]
        assert (cause["change"], cause["argument"], cause["count"]) == ("shape", "batch['x']", count - 1)
        last = f"from float32[{66 - count},3] to float32[{65 - count},3]"
        assert f"the shape of batch['x'] changed {count - 1} times, the last time {last}" in issues[0].summary


def test_many_functions_that_are_compiled_once_are_healthy():
    events = Table.concat([compiled(1, function=f"step{at}") for at in range(40)])
    assert found(RepeatedRecompilation(), events=events) == []


def test_short_compilations_are_a_note_at_most():
    (issue,) = found(RepeatedRecompilation(), events=compiled(31, seconds=0.05))
    assert issue.severity == "info"
    assert found(RepeatedRecompilation(), events=compiled(31, seconds=0.01)) == []


def test_single_operations_may_compile_before_the_steps():
    early = compiled(40, jitted=False, function="add", step=0)
    assert found(RepeatedRecompilation(), events=Table.concat([compiled(1), early])) == []
    late = compiled(40, jitted=False, function="concatenate", step=100, change="", argument="")
    (issue,) = found(RepeatedRecompilation(), events=late)
    assert "the single operation concatenate was compiled 39 more times" in issue.summary
    assert "JAX does not report why" in issue.summary


def test_a_function_that_is_made_anew():
    (issue,) = found(RepeatedRecompilation(), events=compiled(8, change="function", argument=""))
    assert "jax.jit was called again for the same source" in issue.summary


def test_a_job_without_jax():
    issues, window = look(RepeatedRecompilation(), events=Table.empty("events"))
    assert issues == []
    assert window.lack is not None
