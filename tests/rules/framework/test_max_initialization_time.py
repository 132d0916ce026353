"""Tests of the rule MaxInitializationTime."""

from __future__ import annotations

import pytest
from tests.rules.tables import SECOND, START, found, look, steps

from holter.rules import Job, Window
from holter.rules.framework.max_initialization_time import MaxInitializationTime
from holter.schema.table import Table

MINUTE = 60 * SECOND


@pytest.mark.parametrize(("minute", "fires"), [(21, True), (19, False)])
def test_p13_initialization(minute, fires):
    rule = MaxInitializationTime.of(defaults="classic")
    job = Job(start=START, first_step=START + minute * MINUTE)
    assert bool(found(rule, job=job, steps=steps([1.0], start=START + minute * MINUTE))) == fires


def test_initialization_speaks_before_the_first_step_when_one_is_expected():
    rule = MaxInitializationTime()
    late = look(rule, job=Job(start=START, trainers=True))[1]
    assert late.lack.reason == "patience_not_reached"
    window = type(late).of(job=Job(start=START, trainers=True), end=START + 31 * MINUTE)
    assert [i.severity for i in rule.evaluate(window)] == ["critical"]
    nobody = type(late).of(job=Job(start=START), end=START + 31 * MINUTE)
    assert list(rule.evaluate(nobody)) == []
    assert nobody.lack.reason == "no_input"


def test_initialization_is_split_and_any_number_is_a_sign_of_life():
    rule, minute = MaxInitializationTime(), MINUTE
    events = Table.of(
        "events",
        [
            {"time": START + minute, "kind": "process", "detail": '{"role": "trainer"}'},
            {"time": START + 3 * minute, "kind": "framework"},
        ],
    )
    job = Job(start=START, first_step=START + 12 * minute, trainers=True)
    late = steps([30.0], start=START + 12 * minute, data_loading=0.5)
    issues, window = look(rule, job=job, steps=late, events=events)
    parts = {"launch": 60, "import": 120, "preparation": 540, "first_batch": 15}
    assert issues[0].evidence["parts_s"] == pytest.approx(parts)
    assert "from the framework's import to the first step" in issues[0].summary
    assert window.details["step_num"]["first"] == (START + 12 * minute) // 1000
    logged = Table.of("scalars", [{"time": START + 2 * minute, "name": "loss", "value": 1.0}])
    window = Window.of(job=Job(start=START, trainers=True), end=START + 40 * minute, scalars=logged)
    assert list(rule.evaluate(window)) == []
    assert window.points
