"""Tests of the rule FirstStepSlow."""

from __future__ import annotations

from tests.rules.overheads import WARM
from tests.rules.tables import SECOND, START, found, look, steps

from holter.rules.framework.first_step_slow import FirstStepSlow
from holter.schema.table import Table


def test_a_first_step_of_minutes_is_reported_once_as_a_note():
    table = Table.concat([steps([120.0]), steps([0.5] * 60, first=1, start=START + 120 * SECOND)])
    rule = FirstStepSlow()
    state: dict = {}
    issues, _ = look(rule, job=WARM, state=state, steps=table)
    assert [i.severity for i in issues] == ["info"]
    assert look(rule, job=WARM, state=state, steps=table)[0] == []
    short = Table.concat([steps([30.0]), steps([0.01] * 60, first=1, start=START + 30 * SECOND)])
    assert found(rule, job=WARM, steps=short) == []
