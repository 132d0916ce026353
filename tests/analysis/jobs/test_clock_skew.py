"""The skew between nodes' clocks, from collectives that end everywhere at once."""

from __future__ import annotations

import numpy as np
import pytest

from holter.analysis.jobs.clock_skew import FEWEST, clock_skew
from holter.schema.table import Table

MS = 1_000_000


def spans(skew_ns: int, count: int, noise_ns: int = MS, *, lost: int = 0) -> Table:
    """Collectives of two nodes: they begin whenever a node is ready, and end together but for noise."""
    random = np.random.default_rng(0)
    end = np.arange(count, dtype=np.int64) * 50 * MS
    rows = []
    for node, ahead in (("a", 0), ("b", skew_ns)):
        for step in range(count - (lost if node == "b" else 0)):
            duration = int(random.integers(1, 20 * MS))
            ended = int(end[step]) + ahead + int(random.normal(0, noise_ns))
            rows.append({"step": step, "time": ended - duration, "duration": duration, "node": node})
    return Table({name: np.array([row[name] for row in rows]) for name in rows[0]})


@pytest.mark.parametrize("skew_ns", [0, 3 * MS, -700 * MS, 90_000 * MS])
def test_it_is_found_below_the_noise(skew_ns: int) -> None:
    skew = clock_skew(spans(skew_ns, 400), ["a", "b"], on_host=True)["b"]
    assert skew.skew_ns is not None
    assert abs(skew.skew_ns - skew_ns) < 0.3 * MS
    # The middle half of the difference of two normal variables: 2 · 0.6745 · √2 standard deviations.
    assert skew.spread_ns == pytest.approx(1.91 * MS, rel=0.2)
    assert (skew.against, skew.collectives, skew.why) == ("a", 400, None)


def test_it_is_never_taken_for_zero() -> None:
    few = clock_skew(spans(5, FEWEST + 3, lost=4), ["a", "b"], on_host=True)["b"]
    assert few.skew_ns is None
    assert few.why == "the nodes share 7 collectives, and 8 are needed"
    queued = clock_skew(spans(5, 400), ["a", "b"], on_host=False)["b"]
    assert queued.skew_ns is None
    assert "accelerator" in str(queued.why)
