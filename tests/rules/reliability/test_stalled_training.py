"""Tests of the rule StalledTraining."""

from __future__ import annotations

import json

import pytest
from tests.rules.tables import SECOND, START, look, samples, steps

from holter.rules import Job, Window
from holter.rules.reliability.stalled_training import StalledTraining
from holter.schema.table import Table


@pytest.mark.parametrize(("watts", "spinning"), [(120.0, ["n0/gpu0"]), (380.0, [])])
def test_a_stall_names_gpus_that_are_busy_at_little_power(watts, spinning):
    rule = StalledTraining()
    readings = {("gpu.util", "gpu0"): 100.0, ("gpu.power", "gpu0"): watts, ("gpu.power_limit", "gpu0"): 400.0}
    load = samples({place: [value] * 800 for place, value in readings.items()})
    job = Job(start=START, first_step=START)
    end = START + 400 * SECOND
    window = Window.of(rule.lookback, job=job, end=end, steps=steps([0.3] * 300), samples=load)
    (issue,) = rule.evaluate(window)
    assert issue.evidence["spinning_gpus"] == spinning


def event(kind, detail, *, at, rank=0):
    row = {
        "time": START + at * SECOND,
        "rank": rank,
        "kind": kind,
        "name": kind,
        "detail": json.dumps(detail),
    }
    return Table.of("events", [row])


HANG = {
    "ranks": [1],
    "phase": "backward",
    "step": 40,
    "silent_s": 121.0,
    "limit_s": 120.0,
    "recovered": False,
}


def stalled(window_end, *, events=None, state=None, job=None, table=None):
    job = job or Job(start=START, trainers=True)
    tables = {"steps": steps([0.5] * 100) if table is None else table}
    if events is not None:
        tables["events"] = events
    rule = StalledTraining()
    window = Window.of(rule.lookback, job=job, end=START + window_end * SECOND, state=state, **tables)
    return list(rule.evaluate(window)), window


def test_a_hang_is_reported_when_seen_and_again_when_critical():
    state = {}
    (first,), _ = stalled(180, events=event("hang", HANG, at=175, rank=1), state=state)
    assert (first.severity, first.rank, first.step_start) == ("warning", 1, 40)
    assert first.summary.startswith("rank 1 hangs in backward at step 40")
    assert stalled(300, state=state)[0] == []
    state = json.loads(json.dumps(state))
    (later,), _ = stalled(450, state=state)
    assert later.severity == "critical"
    assert later.key == first.key
    assert stalled(900, state=state)[0] == []


def test_a_hang_that_ended_does_not_become_critical():
    state = {}
    stalled(180, events=event("hang", HANG, at=175, rank=1), state=state)
    stalled(200, events=event("hang", {"recovered": True}, at=190, rank=1), state=state)
    assert stalled(900, state=state)[0] == []


def test_the_hang_of_a_rank_goes_on_when_another_recovers():
    state = {}
    hangs = Table.concat(
        [
            event("hang", {**HANG, "ranks": ranks}, at=175, rank=rank)
            for ranks, rank in (([1], 1), ([2, 3], -1))
        ]
    )
    told, _ = stalled(180, events=hangs, state=state)
    assert {issue.rank for issue in told} == {1, None}
    for rank in (1, 2):
        stalled(200, events=event("hang", {"recovered": True}, at=190, rank=rank), state=state)
    state = json.loads(json.dumps(state))
    (later,), _ = stalled(900, state=state)
    assert (later.severity, later.rank) == ("critical", 3)
    stalled(1000, events=event("hang", {"recovered": True}, at=990, rank=3), state=state)
    assert state["hangs"] == {}


def test_a_lost_rank_is_critical():
    (issue,), _ = stalled(60, events=event("lost", {"step": 7, "living": [1]}, at=50, rank=0))
    assert (issue.severity, issue.rank, issue.step_start, issue.code) == ("critical", 0, 7, "lost")


def test_silence_is_judged_where_no_agent_watches():
    nobody = Job(start=START)
    assert stalled(160, job=nobody)[0] == []
    (issue,), _ = stalled(175, job=nobody)
    assert (issue.code, issue.severity, issue.rank) == ("silent", "warning", 0)
    (issue,), _ = stalled(50 + 361, job=nobody)
    assert issue.severity == "critical"


def test_a_step_that_lasts_is_in_the_details_until_it_ends():
    def lasting(*given, **more):
        issues, window = stalled(*given, **more)
        assert issues == []
        return window.details["lasting_steps"]

    (slow,) = lasting(65)
    assert slow == {
        "rank": 0,
        "after_step": 99,
        "silent_s": 15.0,
        "typical_ms": 500.0,
        "loop_pct": slow["loop_pct"],
    }
    assert lasting(58) == []
    assert lasting(65, job=Job(start=START, trainers=True, ended=True)) == []
    assert lasting(65, job=Job(start=START, trainers=True, first_step=START - 600 * SECOND)) == []
    assert lasting(600 + 60, table=steps([30.0] * 20)) == []


def test_slow_steps_are_allowed_longer_silence():
    nobody, slow = Job(start=START), steps([30.0] * 20)
    assert stalled(600 + 290, job=nobody, table=slow)[0] == []
    assert stalled(600 + 310, job=nobody, table=slow)[0]


def test_a_worker_that_ended_does_not_excuse_its_trainer():
    state = {}
    stalled(60, events=event("exit", {"role": "worker"}, at=55), state=state, job=Job(start=START))
    assert stalled(5000, state=state, job=Job(start=START))[0]


def test_a_process_that_ended_is_not_silent():
    state = {}
    stalled(60, events=event("exit", {"clean": True}, at=55), state=state, job=Job(start=START))
    assert stalled(5000, state=state, job=Job(start=START))[0] == []


def test_nothing_known_is_nothing_judged():
    issues, window = look(StalledTraining())
    assert issues == []
    assert window.lack.reason == "no_input"


def test_a_stall_that_has_ended_is_a_detail_and_no_issue():
    table = steps([0.05] * 60 + [15.0] + [0.05] * 20)
    state = {}
    issues, window = stalled(20, table=table, state=state)
    assert issues == []
    (stall,) = window.details["ended_stalls"]
    assert (stall["rank"], stall["step"], stall["took_s"]) == (0, 60, 15.0)
    assert stall["typical_ms"] == pytest.approx(50)
    assert stall["loop_pct"] == pytest.approx(75)
    known = json.loads(json.dumps(state))
    assert stalled(21, table=table.where(table["step"] < 0), state=known)[1].state["ended"] == [stall]


@pytest.mark.parametrize("part", ["eval", "checkpoint", "compile"])
def test_a_known_part_of_a_long_step_is_no_stall(part):
    long = {**steps([15.0], first=60, start=START + 3 * SECOND).columns}
    long[part] = long["duration"] // 10 * 9
    table = Table.concat([steps([0.05] * 60), Table(long)])
    assert stalled(20, table=table)[1].details["ended_stalls"] == []


def test_steps_that_are_always_long_are_no_stalls():
    assert stalled(900, table=steps([15.0] * 60))[1].details["ended_stalls"] == []
    assert stalled(2000, table=steps([0.05] * 60 + [15.0]))[1].details["ended_stalls"] == []
