"""ValidationNotRun and MetricDivergence: what evaluations tell."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import steps
from tests.rules.training import judged, run, same_in_pieces, scalars

from holter.rules.training.metric_divergence import MetricDivergence
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


def metric(values, *, name="val_acc", falling=True):
    n = len(values) * 100
    noise = 0.05 * np.random.default_rng(0).standard_normal(n)
    loss = (2 - np.arange(n) / n if falling else np.linspace(1, 2, n)) + noise
    evaluations = scalars(**{name: values}, every=100, first=99)
    return Table.concat([scalars(loss=loss), evaluations])


@pytest.mark.parametrize("shape", ["rises", "flat", "rises and is flat"])
def test_noisy_metrics_that_do_not_worsen_are_left_alone(shape):
    trend = {
        "rises": np.linspace(0.3, 0.9, 60),
        "flat": np.full(60, 0.7),
        "rises and is flat": np.minimum(np.linspace(0.3, 1.5, 60), 0.8),
    }[shape]
    for seed in range(8):
        noise = 0.03 * np.random.default_rng(seed).standard_normal(60)
        assert judged(MetricDivergence(), scalars=metric(trend + noise)) == []


def test_a_metric_that_falls_while_the_loss_falls_is_a_warning():
    trend = np.concatenate([np.full(20, 0.8), np.linspace(0.78, 0.6, 10)])
    trend += 0.005 * np.random.default_rng(0).standard_normal(30)
    (issue,) = same_in_pieces(MetricDivergence(), scalars=metric(trend))
    assert (issue.severity, issue.tensor) == ("warning", "val_acc")
    assert issue.evidence["now"] < issue.evidence["was"]
    assert judged(MetricDivergence(), scalars=metric(trend, falling=False)) == []
    assert judged(MetricDivergence(), scalars=metric(1 - trend, name="val_acc")) == []
    assert judged(MetricDivergence(), scalars=metric(1 - trend, name="eval/word_error"))


def test_losses_are_not_its_business():
    fared = run(MetricDivergence(), scalars=metric(np.linspace(1, 2, 30), name="val_loss"))
    assert (fared.issues, fared.reason) == ({}, "no_input")


def test_few_evaluations_are_too_few():
    fared = run(MetricDivergence(), scalars=metric([0.5] * 8))
    assert (fared.covered, fared.reason, fared.have, fared.need) == (0, "too_few_points", 8, 15)
