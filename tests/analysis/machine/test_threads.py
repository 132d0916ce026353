"""Shares of training threads: what the kernel counted for the loop, and readings of the state by phase."""

from __future__ import annotations

import numpy as np
import pytest

from holter.analysis.machine.threads import MIN_LOOKS, thread_shares
from holter.schema.table import Table

ROUNDS = 4 * MIN_LOOKS


def samples(rows):
    time, metric, device, value = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Table(
        {
            "time": np.array(time, dtype=np.int64),
            "metric": np.array(metric, dtype=object),
            "device": np.array(device, dtype=object),
            "value": np.array(value, dtype=float),
        }
    )


def recorded():
    """A thread that computes, half of the time without a core, and then sleeps as long."""
    rows = []
    for at in range(ROUNDS):
        rows += [(at, "thread.running", "rank 0", 25.0), (at, "thread.waiting", "rank 0", 25.0)]
        phase = ("forward", "other")[at % 2]
        rows.append((at, "thread.blocked", f"rank 0 {phase}", 100.0 * (phase == "other")))
    rows += [(at, "thread.blocked", "rank 0 backward", 0.0) for at in range(MIN_LOOKS - 1)]
    rows += [(at, "cpu.util", "", 5.0) for at in range(ROUNDS)]
    return samples(rows)


def test_shares_of_the_loop_and_of_its_phases():
    found = {one.phase: one for one in thread_shares(recorded(), None, None)}
    assert set(found) == {"training_loop", "forward", "other"}  # few readings are no share
    shares = {
        name: (one.running_pct, one.waiting_for_core_pct, one.blocked_pct) for name, one in found.items()
    }
    assert shares["training_loop"] == pytest.approx((25, 25, 50))
    assert shares["forward"] == pytest.approx((50, 50, 0))
    assert shares["other"] == pytest.approx((0, 0, 100))
    assert found["forward"].looks == ROUNDS // 2


def test_only_the_time_asked_for_counts():
    assert {one.phase for one in thread_shares(recorded(), 0, 4)} == {"training_loop"}
    assert thread_shares(recorded(), ROUNDS, None) == []
    assert thread_shares(samples([]), None, None) == []
