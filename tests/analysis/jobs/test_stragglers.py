"""The slow rank: found in noise, not invented, and its victims not blamed."""

from __future__ import annotations

import numpy as np
import pytest

from holter.analysis.jobs.stragglers import slow_together, stragglers
from holter.schema.table import Table

MS = 1_000_000


def ranks(count, slow, *, extra, noise=0.05, steps=50, seed=0, part="forward"):
    """Synchronous steps: each as long as the slowest rank's own work; the others wait in communication."""
    random = np.random.default_rng(seed)
    own = 100 * MS * np.exp(random.normal(0, noise, (count, steps)))
    if slow is not None:
        own[slow] *= 1 + extra
    wall = own.max(axis=0) + 2 * MS
    rows = []
    for rank in range(count):
        for i in range(steps):
            mine, whole = int(own[rank, i]), int(wall[i])
            grown = int(own[rank, i] * (1 - 1 / (1 + extra))) if rank == slow else 0
            parts = {"forward": mine - grown, "communication": whole - mine}
            parts[part] = parts.get(part, 0) + grown
            rows.append({"time": i * 10**9, "duration": whole, "rank": rank, "step": i, **parts})
    return Table.of("steps", rows)


@pytest.mark.parametrize("seed", range(20))
def test_one_of_eight_that_is_15_percent_slower(seed):
    found = stragglers(ranks(8, 5, extra=0.15, seed=seed))
    assert [s.rank for s in found] == [5]
    assert found[0].excess == pytest.approx(0.15, abs=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_none_is_invented(seed):
    assert stragglers(ranks(8, None, extra=0, seed=seed)) == []


@pytest.mark.parametrize("slow", [0, 1])
def test_of_two_ranks_the_slow_one_is_named(slow):
    (found,) = stragglers(ranks(2, slow, extra=0.5, part="data_loading"))
    assert (found.rank, found.part) == (slow, "data_loading")
    assert found.part_ms == pytest.approx(50, rel=0.1)
    assert found.waiting_ms == pytest.approx(50, rel=0.1)
    assert found.cost == pytest.approx(1 / 3, abs=0.03)


def test_a_rank_alone_or_with_few_steps_is_no_straggler():
    assert stragglers(ranks(1, 0, extra=0.5)) == []
    assert stragglers(ranks(4, 0, extra=0.5, steps=10)) == []
    assert stragglers(Table.empty("steps")) == []


def test_nobody_waits_for_a_rank_that_trains_alone():
    """Independent processes: one is slower, no one communicates."""
    steps = ranks(2, 1, extra=0.5)
    alone = Table({**steps.columns, "duration": steps["duration"] - steps["communication"]})
    alone = Table({**alone.columns, "communication": np.zeros(steps.rows, dtype=np.int64)})
    assert stragglers(alone) == []


def test_a_resumed_training_repeats_steps():
    steps = ranks(2, 1, extra=0.5)
    again = Table({**steps.columns, "time": steps["time"] + 10**12})
    assert [s.rank for s in stragglers(Table.concat([steps, again]))] == [1]


@pytest.mark.parametrize("slow", [[4, 5, 6, 7], [1, 3], [0, 2, 4, 6]])
def test_half_of_the_ranks_may_be_slow(slow):
    """The ranks of a node: each is compared with the others, not with a mixture of both."""
    random = np.random.default_rng(1)
    own = 100 * MS * np.exp(random.normal(0, 0.02, (8, 50)))
    own[slow] *= 1.5
    wall = own.max(axis=0) + 2 * MS
    rows = [
        {
            "time": i * 10**9,
            "duration": int(wall[i]),
            "rank": rank,
            "step": i,
            "forward": int(own[rank, i]),
            "communication": int(wall[i]) - int(own[rank, i]),
        }
        for rank in range(8)
        for i in range(50)
    ]
    found = stragglers(Table.of("steps", rows))
    assert sorted(s.rank for s in found) == slow
    assert [s.excess for s in found] == pytest.approx([0.5] * len(slow), abs=0.03)
    assert [s.others_ms for s in found] == pytest.approx([100] * len(slow), rel=0.02)
    assert sorted(s.rank for s in slow_together(found)) == slow
