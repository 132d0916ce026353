"""Steps that ranks take together, without one cause: what is left is the longest rank of each step."""

from __future__ import annotations

import numpy as np
import pytest

from holter.analysis.jobs.synchronous_steps import what_if_of_steps
from holter.analysis.verdict.gathering import gather
from holter.analysis.verdict.job_verdict import verdict
from holter.schema.table import Table

MS = 1_000_000
TRANSFER = 4


def steps(own, loading=None) -> Table:
    """Return steps of ranks (row) with own work (ms, by step): all wait for the longest, then transfer."""
    own = np.asarray(own, dtype=float)
    loading = np.zeros_like(own) if loading is None else np.asarray(loading, dtype=float)
    wall = (own + loading).max(axis=0) + TRANSFER
    return Table.of(
        "steps",
        [
            {
                "time": round(wall[:i].sum() * MS),
                "duration": round(wall[i] * MS),
                "rank": rank,
                "step": i,
                "forward": round(own[rank, i] * MS),
                "data_loading": round(loading[rank, i] * MS),
                "communication": round((wall[i] - own[rank, i] - loading[rank, i]) * MS),
            }
            for rank in range(len(own))
            for i in range(own.shape[1])
        ],
    )


def without(found, kind):
    cause = found.without(kind)
    assert cause is not None
    return cause.step_ms


def test_without_a_slow_rank_the_others_set_the_pace():
    own = np.full((4, 30), 20.0)
    own[2] = 50
    found = what_if_of_steps(steps(own), [2])
    assert found is not None
    assert found.step_ms == pytest.approx(50 + TRANSFER)
    assert without(found, "rank") == pytest.approx(20 + TRANSFER)
    assert found.without("rank").name == "rank 2"
    assert without(found, "communication") == pytest.approx(50)


def test_one_of_two_slow_ranks_gains_nothing_alone():
    own = np.full((5, 30), 20.0)
    own[[1, 3]] = 50
    found = what_if_of_steps(steps(own), [1, 3])
    assert found is not None
    assert without(found, "rank") == pytest.approx(50 + TRANSFER)
    assert without(found, "ranks") == pytest.approx(20 + TRANSFER)


def test_a_slow_step_of_the_others_stays():
    """Means would promise 24 ms; in every third step another rank takes 50 ms."""
    own = np.full((4, 30), 20.0)
    own[2] = 50
    own[0, ::3] = 50
    found = what_if_of_steps(steps(own), [2])
    assert found is not None
    assert without(found, "rank") == pytest.approx((50 + 2 * 20) / 3 + TRANSFER)


def test_ranks_that_take_turns_lose_time_although_their_means_are_equal():
    own = np.full((2, 30), 20.0)
    own[0, ::2] = own[1, 1::2] = 50
    found = what_if_of_steps(steps(own))
    assert found is not None
    assert without(found, "unequal_ranks") == pytest.approx(35 + TRANSFER)
    assert without(found, "communication") == pytest.approx(50)  # the wait for the other rank stays
    assert found.ideal_ms == pytest.approx(35 + TRANSFER)


def test_without_data_loading_the_slowest_of_the_others_parts_counts():
    own = np.stack([np.full(30, 20.0), np.full(30, 30.0)])
    loading = np.stack([np.full(30, 40.0), np.full(30, 10.0)])
    found = what_if_of_steps(steps(own, loading))
    assert found is not None
    assert without(found, "data_loading") == pytest.approx(30 + TRANSFER)


def test_equal_ranks_have_no_cause_but_the_transfer():
    found = what_if_of_steps(steps(np.full((4, 30), 20.0)))
    assert found is not None
    assert found.slowdown == pytest.approx(1)
    assert [cause.kind for cause in found.causes if cause.speedup > 1.01] == ["communication"]


def test_a_rank_alone_or_ranks_that_do_not_communicate_are_not_replayed():
    assert what_if_of_steps(steps(np.full((1, 30), 20.0))) is None
    assert what_if_of_steps(steps(np.full((2, 4), 20.0))) is None
    alone = steps(np.full((2, 30), 20.0))
    nothing = np.zeros(alone.rows, dtype=np.int64)
    assert what_if_of_steps(Table({**alone.columns, "communication": nothing})) is None


def test_the_promise_for_a_straggler_counts_the_steps_that_others_delay():
    own = np.full((4, 60), 20.0)
    own[2] = 50
    own[0, ::3] = 50
    told = verdict(gather(steps(own)))
    assert "without the extra work of rank 2 the job would run" in told.evidence[0].text
    assert told.advice[0].expected_step_ms == pytest.approx((50 + 2 * 20) / 3 + TRANSFER, rel=0.03)


def test_the_promise_for_several_stragglers_is_for_all_of_them():
    own = np.full((5, 60), 20.0)
    own[[1, 3]] = 50
    told = verdict(gather(steps(own)))
    assert told.advice[0].expected_step_ms == pytest.approx(20 + TRANSFER)
    assert "without the extra work of ranks 1, 3" in told.advice[0].why


def test_overlap_promises_the_transfer_and_equal_work_the_wait():
    own = np.full((2, 60), 20.0)
    own[0, ::2] = own[1, 1::2] = 50
    told = verdict(gather(steps(own)))
    assert told.suspect == "communication"
    assert told.sentence.endswith("most of it waiting for the rank that comes last.")
    promised = {advice.text.split()[0]: advice.expected_step_ms for advice in told.advice}
    assert promised["Give"] == pytest.approx(35 + TRANSFER, rel=0.03)
    assert promised["Overlap"] == pytest.approx(50, rel=0.03)


def test_exchange_of_equal_ranks_is_no_wait_for_the_last_one():
    own = np.full((2, 60), 12.0)
    told = verdict(gather(steps(own)))
    assert told.suspect == "communication"
    assert "waiting for the rank" not in told.sentence
    assert [advice.text.split()[0] for advice in told.advice] == ["Overlap", "Communicate"]
