"""Tests of the rule MetricDivergence."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.training_rows import judged, run, same_in_pieces, scalars

from holter.rules.training.metric_divergence import MetricDivergence
from holter.schema.table import Table


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
