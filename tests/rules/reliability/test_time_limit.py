"""Tests of the rule TimeLimit."""

from __future__ import annotations

import pytest
from tests.rules.facts import again, planned
from tests.rules.tables import SECOND, START, found, look, steps

from holter.rules import Job
from holter.rules.reliability.time_limit import TimeLimit
from holter.schema.table import Table


def job(limit_s: float, **facts: object) -> Job:
    """Return the facts of a job that Slurm ends after some seconds."""
    ends = START + round(limit_s * SECOND)
    return Job(start=START, nodes={"n0": {"cpus": 8, "scheduler": {"name": "slurm", "ends": ends}}}, **facts)


def plan(count: int) -> Table:
    return Table.of("events", [planned(count)])


def test_a_job_whose_limit_ends_before_its_last_step():
    table = steps([10.0] * 100)  # 1,000 s for 100 of 1,000 steps
    (issue,) = found(TimeLimit(), job=job(7000), steps=table, events=plan(1000))
    assert issue.severity == "warning"
    assert issue.evidence["missing_min"] == pytest.approx(50, abs=0.5)
    assert issue.evidence["reaches_step"] == 700
    assert "50 minutes before the last step" in issue.summary
    assert "step 700 of 1,000" in issue.summary
    (near,) = found(TimeLimit(), job=job(1000 + 20 * 60), steps=table, events=plan(1000))
    assert near.severity == "critical"


def test_a_job_that_finishes_in_time_or_only_just():
    table = steps([10.0] * 100)
    assert found(TimeLimit(), job=job(12000), steps=table, events=plan(1000)) == []
    assert found(TimeLimit(), job=job(9900), steps=table, events=plan(1000)) == []
    assert found(TimeLimit(), job=job(100), steps=table, events=plan(100)) == []
    assert found(TimeLimit(), job=job(7000, ended=True), steps=table, events=plan(1000)) == []


def test_checkpoints_and_the_compilation_of_the_first_step():
    table = steps([3000.0] + [10.0] * 99)
    assert found(TimeLimit(), job=job(3000 + 12000), steps=table, events=plan(1000)) == []
    slow = steps([10.0, 10.0, 60.0] * 40)  # a checkpoint in each third step
    (issue,) = found(TimeLimit(), job=job(15000), steps=slow, events=plan(1000))
    assert issue.evidence["step_ms"] == pytest.approx(26_800, rel=0.02)


def test_a_restart_counts_from_its_own_begin():
    rows = list(steps([1.0] * 50).to_rows())
    table = Table.of("steps", [*rows, *again(rows)])
    (issue,) = found(TimeLimit(), job=job(86_400 + 600), steps=table, events=plan(1000))
    assert issue.evidence["done_steps"] == 50
    assert issue.evidence["step_ms"] == pytest.approx(1000)


def test_steps_that_arrive_in_two_pieces_are_judged_as_in_one():
    rule, state = TimeLimit(), {}
    look(rule, job=job(7000), state=state, steps=steps([10.0] * 50), events=plan(1000))
    rest = steps([10.0] * 50, first=50, start=START + 500 * SECOND)
    (issue,), _ = look(rule, job=job(7000), state=state, steps=rest)
    assert issue.evidence["missing_min"] == pytest.approx(50, abs=0.5)


@pytest.mark.parametrize(
    ("rule", "tables", "facts"),
    [
        (TimeLimit(), {"events": plan(1000)}, Job(start=START)),
        (TimeLimit(), {}, job(7000)),
    ],
)
def test_without_a_limit_or_a_plan_nothing_is_judged(rule, tables, facts):
    issues, window = look(rule, job=facts, steps=steps([10.0] * 100), **tables)
    assert issues == []
    assert window.lack.reason == "no_input"


def test_what_the_user_says():
    rule = TimeLimit(limit_h=1, total_steps=1000)
    (issue,) = found(rule, job=Job(start=START), steps=steps([10.0] * 100))
    assert issue.evidence["missing_min"] == pytest.approx(107, abs=1)
    (given,) = found(TimeLimit(), job=job(7000, total_steps=1000), steps=steps([10.0] * 100))
    assert given.evidence["total_steps"] == 1000
