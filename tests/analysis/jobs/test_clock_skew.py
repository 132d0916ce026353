"""The skew and the drift between nodes' clocks, from collectives that end everywhere at once."""

from __future__ import annotations

import numpy as np
import pytest

from holter.analysis.jobs.clock_skew import FEWEST, clock_skew, line
from holter.schema.table import Table

MS = 1_000_000
START = 1_700_000_000_000_000_000


def ends(
    skew_ns: int,
    count: int,
    noise_ns: int = MS,
    *,
    ppm: float = 0.0,
    lost: int = 0,
    seed: int = 0,
    wild: float = 0.0,
) -> Table:
    """Return ends of collectives of two nodes, one every 50 ms; a share of node b's are wildly late."""
    random = np.random.default_rng(seed)
    true = START + np.arange(count, dtype=np.int64) * 50 * MS
    kept = count - lost
    ahead = skew_ns + np.round(ppm * 1e-6 * (true - START)).astype(np.int64)
    noise = random.normal(0, noise_ns / np.sqrt(2), (2, count)).astype(np.int64)
    late = np.where(random.random(count) < wild, random.exponential(50 * MS, count), 0).astype(np.int64)
    seen_a, seen_b = true + noise[0], true + ahead + noise[1] + late
    return Table(
        {
            "node": np.array(["a"] * count + ["b"] * kept, object),
            "step": np.concatenate([np.arange(count), np.arange(kept)]),
            "ended": np.concatenate([seen_a, seen_b[:kept]]),
        }
    )


@pytest.mark.parametrize("skew_ns", [0, 3 * MS, -700 * MS, 90_000 * MS])
def test_it_is_found_below_the_noise(skew_ns: int) -> None:
    skew = clock_skew(ends(skew_ns, 400), ["a", "b"])["b"]
    assert skew.skew_ns is not None
    assert abs(skew.skew_ns - skew_ns) < 0.3 * MS
    # The middle half of a normal variable: 2 · 0.6745 standard deviations.
    assert skew.spread_ns == pytest.approx(1.35 * MS, rel=0.2)
    assert (skew.against, skew.collectives, skew.source, skew.why) == ("a", 400, "collectives", None)


@pytest.mark.parametrize("ppm", [50.0, -50.0, 0.0])
@pytest.mark.parametrize("skew_ns", [500 * MS, -500 * MS])
def test_skew_and_drift_are_corrected_to_100_us(skew_ns: int, ppm: float) -> None:
    """Ends of collectives are seen up to a millisecond apart, and one in twenty 50 ms late."""
    for seed in range(10):
        count = 4000
        found = clock_skew(ends(skew_ns, count, 300_000, ppm=ppm, seed=seed, wild=0.05), ["a", "b"])["b"]
        assert found.skew_ns is not None
        assert found.error_ns is not None
        true = START + np.arange(count) * 50 * MS
        seen = true + skew_ns + ppm * 1e-6 * (true - START)
        corrected = seen - found.skew_ns - found.drift_ppm * 1e-6 * (seen - found.at_ns)
        wrong = float(np.abs(corrected - true).max())
        assert wrong <= 100_000
        assert wrong <= found.error_ns <= 100_000
        assert found.drift_ppm == pytest.approx(ppm, abs=0.5)


def test_it_is_never_taken_for_zero() -> None:
    few = clock_skew(ends(5, FEWEST + 3, lost=4), ["a", "b"])["b"]
    assert few.skew_ns is None
    assert few.why == "the nodes share 7 collectives, and 8 are needed"
    other = ends(0, 100)
    strange = Table(
        {**other.columns, "ended": other["ended"] + (other["node"] == "b") * np.arange(200) * 20 * MS}
    )
    found = clock_skew(strange, ["a", "b"])["b"]
    assert found.skew_ns is None
    assert "not common" in str(found.why)


def test_ends_of_steps_add_their_own_uncertainty() -> None:
    found = clock_skew(ends(900 * MS, 400), ["a", "b"], source="steps", late_ns=100 * MS)["b"]
    assert found.source == "steps"
    assert 100 * MS < (found.error_ns or 0) < 102 * MS


def test_a_line_is_as_exact_as_least_squares_and_ignores_wrong_points() -> None:
    random = np.random.default_rng(0)
    x = np.linspace(-100, 100, 2000)
    y = 7 + 3 * x + random.normal(0, 1, len(x))
    level, slope, error = line(x, y)
    fitted = np.polynomial.Polynomial.fit(x, y, 1).convert().coef
    assert (level, slope) == pytest.approx(tuple(fitted), abs=0.02)
    y[::5] += 1000
    level, slope, error = line(x, y)
    assert level == pytest.approx(7, abs=0.2)
    assert slope == pytest.approx(3, abs=0.002)
    assert error < 0.3
