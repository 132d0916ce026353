"""Periods of readings: found where something repeats, with its length; absent in noise, trends and jumps."""

import numpy as np
import pytest

from holter.analysis.machine.periods import period

INTERVAL_S = 0.02
READINGS = 1500


def events(seconds, jitter, generator):
    """Return readings that count events, one each `seconds` with a length that varies by `jitter`."""
    lengths = seconds * (1 + jitter * generator.standard_normal(int(READINGS * INTERVAL_S / seconds) + 10))
    edges = np.arange(READINGS + 1) * INTERVAL_S
    return np.histogram(np.cumsum(lengths), edges)[0].astype(float)


@pytest.mark.parametrize("seconds", [0.1, 0.137, 0.42, 1.3, 4.0])
@pytest.mark.parametrize("jitter", [0.0, 0.02])
def test_events_have_their_period(seconds, jitter):
    found = period(events(seconds, jitter, np.random.default_rng(0)), INTERVAL_S)
    assert found is not None
    assert found.seconds == pytest.approx(seconds, rel=0.05)
    assert found.strength >= 0.6
    assert found.cycles == pytest.approx(READINGS * INTERVAL_S / seconds, rel=0.1)


def test_work_and_waiting_in_turns_have_a_period_despite_noise():
    generator = np.random.default_rng(1)
    at = np.arange(READINGS) * INTERVAL_S
    busy = (at % 0.9 < 0.6) + 0.2 * generator.standard_normal(READINGS)
    assert period(busy, INTERVAL_S).seconds == pytest.approx(0.9, rel=0.03)


def test_few_repetitions_are_no_period():
    assert period(events(6.0, 0.0, np.random.default_rng(0)), INTERVAL_S) is None


@pytest.mark.parametrize(
    "made",
    [
        lambda g: g.standard_normal(READINGS),
        lambda g: g.poisson(0.1, READINGS).astype(float),
        lambda g: np.cumsum(g.standard_normal(READINGS)),
        lambda g: np.repeat(g.random(100), 15),
        lambda g: g.exponential(1, READINGS) ** 3,
    ],
    ids=["noise", "rare events", "random walk", "levels", "bursts"],
)
def test_what_does_not_repeat_has_no_period(made):
    generator = np.random.default_rng(2)
    assert not [found for _ in range(60) if (found := period(made(generator), INTERVAL_S))]


@pytest.mark.parametrize("values", [[], [1.0], [5.0] * READINGS, [0.0] * READINGS, [float("nan")] * READINGS])
def test_readings_without_information_have_no_period(values):
    assert period(np.array(values), INTERVAL_S) is None
