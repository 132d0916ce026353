"""Tests of the rule ValidationNotRun."""

from __future__ import annotations

from tests.rules.tables import steps
from tests.rules.training_rows import judged, run, same_in_pieces, scalars

from holter.rules.training.validation_not_run import ValidationNotRun
from holter.schema.table import Table


def test_no_evaluation_in_a_quarter_of_the_plan():
    rule = ValidationNotRun(planned_steps=1000)
    train = scalars(loss=[1.0] * 400)
    (issue,) = same_in_pieces(rule, scalars=train)
    assert (issue.code, issue.severity, issue.step_end, issue.count) == ("never", "info", 250, 1)
    assert judged(rule, scalars=scalars(loss=[1.0] * 200)) == []
    assert judged(rule, scalars=Table.concat([train, scalars(val_loss=[1.0], first=240)])) == []
    marked = scalars(accuracy=[1.0], first=240, mode="eval")
    assert judged(rule, scalars=Table.concat([train, marked])) == []


def test_a_step_with_an_evaluation_in_it_counts():
    rows = steps([1.0] * 400)
    rows["eval"][200] = 10**8
    assert judged(ValidationNotRun(planned_steps=1000), steps=rows) == []


def test_evaluations_that_stop_are_told_once():
    train = scalars(loss=[1.0] * 2000)
    seen = [scalars(val_acc=[0.5], first=s) for s in (100, 200, 300, 400)]
    (issue,) = same_in_pieces(ValidationNotRun(), scalars=Table.concat([train, *seen]))
    assert (issue.code, issue.step_start, issue.step_end, issue.count) == ("stopped", 400, 800, 1)
    rest = [scalars(val_acc=[0.5], first=s) for s in range(500, 2000, 150)]
    assert judged(ValidationNotRun(), scalars=Table.concat([train, *seen, *rest])) == []


def test_without_a_plan_and_evaluations_there_is_nothing_to_judge():
    fared = run(ValidationNotRun(), scalars=scalars(loss=[1.0] * 2000))
    assert (fared.covered, fared.reason) == (0, "no_input")
