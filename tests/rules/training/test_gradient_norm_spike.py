"""Tests of the rule GradientNormSpike."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.training_rows import judged, run, same_in_pieces, scalars

from holter.rules.training.gradient_norm_spike import GradientNormSpike


def norms(sigma, n=2000, seed=0):
    return np.exp(sigma * np.random.default_rng(seed).standard_normal(n)) * (
        0.5 + 2 * np.exp(-np.arange(n) / 100)
    )


@pytest.mark.parametrize("sigma", [0.1, 0.2, 0.3, 0.5])
def test_healthy_norms_are_left_alone(sigma):
    for seed in range(4):
        assert judged(GradientNormSpike(), scalars=scalars(grad_norm=norms(sigma, seed=seed))) == []


@pytest.mark.parametrize(("sigma", "times"), [(0.2, 5), (0.3, 9)])
def test_a_spike_is_info(sigma, times):
    values = norms(sigma)
    values[900] = 0.5 * times
    (issue,) = judged(GradientNormSpike(), scalars=scalars(grad_norm=values))
    assert (issue.code, issue.severity, issue.step_start) == ("spike", "info", 900)


def test_many_or_large_spikes_are_a_warning_unless_a_schedule_makes_them():
    values = norms(0.1)
    values[[900, 1000, 1300]] = 2.5
    (issue,) = same_in_pieces(GradientNormSpike(), scalars=scalars(grad_norm=values))
    assert (issue.severity, issue.count) == ("warning", 3)
    values = norms(0.1)
    values[900] = 20
    assert judged(GradientNormSpike(), scalars=scalars(grad_norm=values))[0].severity == "warning"
    values = norms(0.1)
    values[::16] *= 4
    (regular,) = judged(GradientNormSpike(), scalars=scalars(grad_norm=values))
    assert regular.severity == "info"


def test_a_spike_that_the_loss_follows_is_critical():
    values, loss = norms(0.1), 2 + 0.02 * np.random.default_rng(0).standard_normal(2000)
    values[900], loss[910:930] = 4, 4
    found = {
        i.code: i for i in same_in_pieces(GradientNormSpike(), scalars=scalars(grad_norm=values, loss=loss))
    }
    assert (found["followed"].severity, found["followed"].step_start) == ("critical", 900)
    assert found["followed"].step_end == 910


def test_a_norm_that_stays_high_is_critical_once():
    values = norms(0.1)
    values[900:] *= 5
    found = {i.code: i for i in same_in_pieces(GradientNormSpike(), scalars=scalars(grad_norm=values))}
    assert (found["high"].severity, found["high"].step_start, found["high"].count) == ("critical", 900, 1)


def test_skipped_steps_have_no_norm():
    values = norms(0.2)
    values[::100] = np.inf
    assert judged(GradientNormSpike(), scalars=scalars(grad_norm=values)) == []


def test_clipping_at_nearly_every_step_is_told():
    (issue,) = judged(
        GradientNormSpike(), scalars=scalars(grad_norm=[3.0] * 700, grad_norm_clipped=[1.0] * 700)
    )
    assert (issue.code, issue.severity) == ("always_clipped", "info")
    clipped = [1.0, 3.0] * 350
    assert (
        judged(GradientNormSpike(), scalars=scalars(grad_norm=[3.0] * 700, grad_norm_clipped=clipped)) == []
    )


def test_a_norm_that_vanishes_while_the_loss_stays_is_a_warning():
    values = np.concatenate([np.ones(600), np.full(300, 1e-3)])
    stuck = {"grad_norm": values, "loss": np.full(900, 2.3)}
    (issue,) = same_in_pieces(GradientNormSpike(), scalars=scalars(**stuck))
    assert (issue.code, issue.severity, issue.step_start) == ("vanishing_norm", "warning", 600)
    # What has been learned has no gradient any more.
    learned = np.concatenate([np.full(600, 2.3), np.full(300, 1e-4)])
    assert judged(GradientNormSpike(), scalars=scalars(grad_norm=values, loss=learned)) == []


def test_without_norms_it_says_what_to_record():
    fared = run(GradientNormSpike(), scalars=scalars(loss=[1.0] * 10))
    assert fared.reason == "no_input"
    assert "--save" in fared.lack
