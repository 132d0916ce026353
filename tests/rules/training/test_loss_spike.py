"""LossSpike: no false alarms on what healthy losses do, and what is told of a sick one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.rules.training_rows import judged, run, same_in_pieces, scalars

from holter.rules import BadRule
from holter.rules.training.loss_spike import LossSpike
from holter.schema.table import Table

STEPS = 6000


def decay(n=STEPS, *, to=2.0, by=2.0):
    return to + by * np.exp(-np.arange(n) / 500)


def noises(rng, n=STEPS):
    return {
        "gaussian 2 %": 1 + 0.02 * rng.standard_normal(n),
        "gaussian 5 %": 1 + 0.05 * rng.standard_normal(n),
        # Above twice the median one step is a spike, whatever drew it.
        "student 3 %": 1 + np.minimum(0.03 * rng.standard_t(3, n), 0.9),
        "laplace 5 %": 1 + 0.05 / math.sqrt(2) * rng.laplace(size=n),
        "batches of one": rng.exponential(size=n),
        "long tail": np.exp(rng.standard_normal(n)),
    }


@pytest.mark.parametrize("noise", list(noises(np.random.default_rng(0), 1)))
def test_noise_is_no_spike(noise):
    for seed in range(3):
        loss = decay() * noises(np.random.default_rng(seed))[noise]
        assert judged(LossSpike(), scalars=scalars(loss=loss)) == []


HEALTHY = {
    "warm-up from a huge loss": lambda r, n: 1e4 * np.exp(-np.arange(n) / 30) + decay(n) + 0.05 * r.random(n),
    "down to nothing": lambda r, n: (
        3 * np.exp(-np.arange(n) / 150) * np.exp(0.8 * r.standard_normal(n)) + 1e-9
    ),
    "around 0, as of a policy": lambda r, n: 0.02 * r.standard_t(3, n),
    "negative": lambda r, n: -50 - decay(n) + 3 * r.standard_normal(n),
    "two players": lambda r, n: 1 + 0.6 * np.sin(np.arange(n) / 40) + 0.1 * r.standard_normal(n),
    "one loss for ever": lambda r, n: np.full(n, 0.69),
}


@pytest.mark.parametrize("loss", HEALTHY.values(), ids=list(HEALTHY))
def test_healthy_losses_are_left_alone(loss):
    for seed in range(3):
        assert judged(LossSpike(), scalars=scalars(loss=loss(np.random.default_rng(seed), 3000))) == []


def spiked(*, at, length, height, n=1500, seed=1):
    loss = decay(n) * (1 + 0.03 * np.random.default_rng(seed).standard_normal(n))
    for step in at:
        loss[step : step + length] *= height
    return scalars(loss=loss)


def test_a_spike_of_half_the_loss_is_always_found():
    for seed in range(10):
        (issue,) = judged(LossSpike(), scalars=spiked(at=[700], length=10, height=1.5, seed=seed))
        assert (issue.code, issue.severity, issue.step_start, issue.count) == ("spike", "warning", 700, 1)
        assert issue.tensor == "loss"


def test_a_rise_that_is_nothing_beside_what_was_learned_is_no_spike():
    noise = np.random.default_rng(5).random(900)
    for first, found in ((2.0, 0), (0.01, 1)):
        loss = first * np.exp(-np.arange(900) / 5) + 1e-6 * (1 + 0.1 * noise)
        loss[700:705] = 5e-5
        assert len(judged(LossSpike(), scalars=scalars(loss=loss))) == found


def test_one_step_is_enough_when_it_is_far_out_and_not_otherwise():
    assert judged(LossSpike(), scalars=spiked(at=[700], length=1, height=1.5)) == []
    (issue,) = judged(LossSpike(), scalars=spiked(at=[700], length=1, height=4))
    assert (issue.code, issue.step_start) == ("spike", 700)


def test_a_loss_that_does_not_come_back_is_critical():
    found = {i.code: i for i in same_in_pieces(LossSpike(), scalars=spiked(at=[700], length=800, height=1.5))}
    assert sorted(found) == ["divergence", "spike"]
    assert found["divergence"].severity == "critical"
    assert found["divergence"].evidence["median_of_last_20"] > 1.3 * found["divergence"].evidence["median"]


def test_three_spikes_in_a_thousand_steps_are_critical_unless_a_schedule_makes_them():
    found = {
        i.code: i for i in same_in_pieces(LossSpike(), scalars=spiked(at=[400, 700, 850], length=3, height=2))
    }
    assert sorted(found) == ["spike", "unstable"]
    assert (found["spike"].count, found["unstable"].severity) == (3, "critical")
    (periodic,) = judged(LossSpike(), scalars=spiked(at=[400, 600, 800, 1000], length=3, height=2))
    assert periodic.code == "spike"


def test_a_loss_that_is_not_finite_is_critical():
    (issue,) = same_in_pieces(LossSpike(), scalars=scalars(loss=[1.0] * 200 + [math.nan] * 20))
    assert (issue.code, issue.severity, issue.step_start, issue.count) == ("nonfinite", "critical", 200, 1)


def test_ranks_are_averaged():
    # One rank's unlucky batch is no spike of a mean over eight.
    rng = np.random.default_rng(0)
    ranks = [scalars(rank=r, loss=2 + 0.05 * rng.standard_normal(600)) for r in range(8)]
    ranks[3]["value"][400:402] *= 1.4
    assert judged(LossSpike(), scalars=Table.concat(ranks)) == []
    for one in ranks:
        one["value"][500:510] *= 1.5
    (issue,) = same_in_pieces(LossSpike(), scalars=Table.concat(ranks))
    assert issue.step_start == 500


def test_a_restart_of_the_schedule_or_of_the_job_starts_anew():
    rng = np.random.default_rng(3)
    loss = np.concatenate([decay(800, to=1, by=1), decay(800, to=1, by=1.5)]) * (
        1 + 0.02 * rng.standard_normal(1600)
    )
    rate = np.concatenate([np.linspace(1e-3, 1e-5, 800)] * 2)
    (told, *_) = judged(LossSpike(), scalars=scalars(loss=loss))
    assert told.code == "spike"
    assert same_in_pieces(LossSpike(), scalars=scalars(loss=loss, lr=rate)) == []
    # The same after a crash: back to step 400 with a loss of long ago, minutes later.
    before, after = scalars(loss=loss[:800]), scalars(loss=loss[800:], first=400)
    after["time"][:] += 900 * 10**9
    assert same_in_pieces(LossSpike(), scalars=Table.concat([before, after])) == []


def test_an_evaluation_under_the_same_name_is_none_of_its_business():
    train = scalars(loss=[1.0 + 0.01 * (i % 7) for i in range(1000)])
    marked = Table.concat([scalars(loss=[4.0] * 5, first=s, mode="eval") for s in (300, 500, 801)])
    assert judged(LossSpike(), scalars=Table.concat([train, marked])) == []
    mixed = []
    for step in (300, 500, 801):
        rows = scalars(loss=[5.0] * 8, every=0, first=step)
        rows["time"][:] += np.arange(1, 9)
        mixed.append(rows)
    assert judged(LossSpike(), scalars=Table.concat([train, *mixed])) == []


def test_parts_of_a_loss_are_not_judged_unless_asked_for():
    loss = scalars(loss_G=[1.0] * 200 + [9.0] * 5 + [1.0] * 200)
    fared = run(LossSpike(), scalars=loss)
    assert (fared.issues, fared.reason) == ({}, "no_input")
    assert judged(LossSpike(names="loss_G"), scalars=loss)
    with pytest.raises(BadRule, match="not a regular expression"):
        LossSpike(names="(")
