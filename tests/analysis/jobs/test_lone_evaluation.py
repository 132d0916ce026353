"""Ranks that evaluate while all others wait, in steps whose times are known."""

from __future__ import annotations

import pytest

from holter.analysis.jobs.lone_evaluation import lone_evaluation
from holter.analysis.verdict.gathering import gather
from holter.analysis.verdict.job_verdict import verdict
from holter.schema.table import Table

MS = 1_000_000
WORK, TRANSFER, EVALUATION = 20, 4, 400
STEPS, EVERY = 40, 10


def steps(*evaluates: int, ranks: int = 4) -> Table:
    """Return steps after every tenth of which some ranks evaluate, and the others wait in a collective."""
    rows, at = [], 0
    for step in range(STEPS):
        due = step % EVERY == EVERY - 1 and bool(evaluates)
        wall = WORK + TRANSFER + EVALUATION * due
        for rank in range(ranks):
            own = EVALUATION * MS if due and rank in evaluates else 0
            waits = wall * MS - WORK * MS - own
            times = {"time": at * MS, "duration": wall * MS, "rank": rank, "step": step}
            rows.append({**times, "forward": WORK * MS, "eval": own, "communication": waits})
        at += wall
    return Table.of("steps", rows)


def test_the_wait_is_a_mean_over_all_ranks_and_steps():
    found = lone_evaluation(steps(1))
    assert found is not None
    assert found.ranks == [1]
    assert found.waiting_ms == pytest.approx(EVALUATION / EVERY * 3 / 4)


@pytest.mark.parametrize("evaluates", [(), (0, 1, 2, 3), (0, 1, 2)])
def test_ranks_that_evaluate_together_do_not_do_it_alone(evaluates):
    assert lone_evaluation(steps(*evaluates)) is None


def test_one_rank_evaluates_with_nobody_waiting():
    assert lone_evaluation(steps(0, ranks=1)) is None


def test_the_verdict_says_what_the_ranks_wait_for():
    found = verdict(gather(steps(0, ranks=2)))
    assert "most of it waiting while only rank 0 evaluates." in found.sentence
    advice = next(one for one in found.advice if one.text.startswith("Evaluate on all ranks"))
    assert f"all others wait for rank 0, {EVALUATION / EVERY / 2:.0f} ms per step" in advice.why
    assert not any("Overlap" in one.text for one in found.advice)
