"""Which steps a window covers, by steps and by time, changed while it runs; and what is wrong."""

from __future__ import annotations

import json
import time

import pytest
import torch

from holter.agent.drain.clock import Clock
from holter.agent.drain.drain import Drain
from holter.agent.drain.event_log import EventLog
from holter.agent.drain.profiling import Profiling
from holter.cli.job_lookup import send_order
from holter.schema import windows
from holter.store.job import create

NOW = 3  # the step at which an order is looked at


def operators(**given) -> dict:
    return {"profiler": "operators", **given}


def asked(*requests: dict) -> str:
    return json.dumps({"requests": list(requests)})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"start_step": 3, "steps": 2}, (3, 5)),
        ({"start_step": 3}, (3, 4)),
        ({"steps": 2}, (3, 5)),
        ({"start_step": 5, "steps": 1}, (5, 6)),
        ({"start_step": 1}, None),
        ({"start_step": 2, "steps": 3}, (3, 5)),
        ({"start_step": 0}, None),
        ({}, None),
    ],
)
def test_truth_table_of_windows_by_steps(train, given, expected):
    made = train(step=NOW - 1)
    made.ask(operators(**given))
    made.steps(8)
    assert made.ranges() == ([("operators", *expected)] if expected else [])
    assert made.wake == windows.NEVER


@pytest.mark.parametrize(
    ("start_s", "duration_s", "steps"),
    [
        (0.0, 0.2, 4),
        (0.0, None, 1),  # the first step seen from then on
        (None, 0.2, 4),
        (-10.0, 5.0, 0),
        (-0.1, 0.4, 6),
    ],
)
def test_truth_table_of_windows_by_time(train, hours, start_s, duration_s, steps):
    made = train(step=NOW - 1)
    given = {}
    if start_s is not None:
        given["start_ns"] = time.time_ns() + int(start_s * 1e9)
    if duration_s is not None:
        given["duration_ns"] = int(duration_s * 1e9)
    made.ask(operators(**given))
    for _ in range(12):
        made.steps(1)
        hours.spend(0.05)
    assert made.ranges() == ([("operators", NOW, NOW + steps)] if steps else [])
    assert made.wake == windows.NEVER


def test_a_window_of_the_start_up_configuration(train):
    made = train(asked(operators(start_step=4, steps=2)))
    assert made.wake == 4
    made.steps(10)
    assert made.ranges() == [("operators", 4, 6)]


def test_a_window_from_the_very_first_step_sees_what_comes_before_its_end(train):
    made = train(asked(operators(start_step=0, steps=1)))
    torch.ones(3) + 1
    made.steps(3)
    (told,) = made.told()
    assert (told["first_step"], told["last_step"]) == (0, 1)
    assert told["events"] > 0


def test_profilers_asked_for_at_once_never_share_a_step(train):
    made = train()
    made.ask(operators(steps=2), operators(steps=3), operators(start_step=4, steps=1))
    made.steps(12)
    # One profiler never begins at the border at which it ended; see `profilers/operators.py`.
    assert made.ranges() == [("operators", 1, 3), ("operators", 4, 7), ("operators", 8, 9)]
    made.ask(operators(steps=2), {"profiler": "python", "steps": 2}, {"profiler": "dataloader", "steps": 1})
    made.steps(12)
    assert made.ranges()[3:] == [("operators", 13, 15), ("dataloader", 13, 14), ("python", 15, 17)]


def test_an_order_that_replaces_ends_what_runs_and_what_waits(train):
    made = train(asked(operators(start_step=1, steps=100), operators(start_step=200)))
    made.steps(4)
    made.ask(replace=True)
    made.steps(4)
    assert made.ranges() == [("operators", 1, 5)]
    assert made.wake == windows.NEVER
    made.ask(operators(steps=2), replace=True)
    made.steps(4)
    assert made.ranges()[1:] == [("operators", 9, 11)]


def test_only_the_rank_that_is_asked_for(train, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    made = train(asked(operators(start_step=1, rank=0), operators(start_step=3, rank=1)))
    made.steps(6)
    assert made.ranges() == [("operators", 3, 4)]


def test_a_rank_that_is_told_after_the_order_counts(train):
    made = train(asked(operators(start_step=2, rank=0), operators(start_step=4, rank=1)))
    made.session.journal("rank", {"rank": 1, "local_rank": 1, "world_size": 2})
    made.steps(6)
    assert made.ranges() == [("operators", 4, 5)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"profiler": "operator", "steps": 1}, "did you mean 'operators'"),
        (operators(start_step=3, duration_ns=10), "by steps and by time"),
        (operators(steps="many"), "'many'"),
        (operators(steps=0), "valid: 1 to 10000"),
        (operators(stepz=2), "did you mean 'steps'"),
        ("operators", "object with a profiler"),
    ],
)
def test_a_bad_window_is_told_once_and_leaves_the_others(train, given, says):
    made = train(asked(given, operators(start_step=2)))
    made.steps(5)
    refused = [one["refused"] for one in made.told() if "refused" in one]
    assert len(refused) == 1
    assert says in refused[0]
    assert made.ranges() == [("operators", 2, 3)]


@pytest.mark.parametrize("text", ["{", "[]", '{"requests": 3}', "null"])
def test_a_bad_order_is_told_and_nothing_runs(train, text):
    made = train(text)
    made.steps(5)
    assert [list(one) for one in made.told()] == [["time", "refused"]]


def test_a_profiler_that_this_version_lacks_is_told(train, monkeypatch):
    monkeypatch.setattr(windows, "PROFILERS", (*windows.PROFILERS, "psychic"))
    made = train(asked({"profiler": "psychic", "start_step": 1, "steps": 2}))
    made.steps(5)
    (told,) = made.told()
    assert told["refused"] == "this version has no profiler 'psychic'"
    assert made.wake == windows.NEVER


def test_a_window_that_is_open_at_the_end_is_ended_with_it(train):
    made = train(asked(operators(start_step=2, steps=100)))
    made.steps(4)
    made.session.close()
    assert made.ranges() == [("operators", 2, 5)]
    assert not torch._C._autograd._profiler_enabled()


def test_starting_and_ending_a_window_is_no_part_of_a_step(train):
    made = train()
    made.ask(operators(steps=1))
    before = time.perf_counter_ns()
    made.session.next_step(before)
    begun = made.session.since
    assert begun > before
    made.session.next_step(time.perf_counter_ns())
    (told,) = made.told()
    assert told["bounds"][0] == begun
    assert made.session.since > told["bounds"][-1]


def test_an_order_waits_until_the_one_before_was_taken(train):
    """As when two are typed while a step, or the start of the training, takes long."""
    made = train()
    made.steps(1)
    drain = Drain(made.spool, Clock.now())
    drain.poll()
    profiling, event_log = Profiling(drain), EventLog(drain.clock)
    for at, profiler in enumerate(({"operators": True}, {"python": "cprofile"})):
        profiling.obey([{"id": str(at), "steps": 1, **profiler}], event_log)
    for _ in range(4):
        made.steps(1)
        profiling.pass_on()
    assert [profiler for profiler, _, _ in made.ranges()] == ["operators", "python"]


def test_no_order_is_lost_that_came_before_the_agent_looked(train, tmp_path):
    """In a job's first seconds an agent looks late; what was typed meanwhile all counts, each once."""
    job = create(str(tmp_path / "store"), "job", command=[], interval_ms=500, rules=[], now_ns=1)
    made = train()
    made.steps(1)
    drain = Drain(made.spool, Clock.now())
    drain.poll()
    profiling, event_log = Profiling(drain), EventLog(drain.clock)
    send_order(job, {"profile": {"id": "1", "steps": 1, "operators": True}})
    send_order(job, {"profile": {"id": "2", "steps": 1, "python": "cprofile"}})
    send_order(job, {"monitoring": True})
    assert job.control()["profile"]["id"] == "2"
    for read in ([], *[windows.orders(job.control())] * 4, [], windows.orders(job.control())):
        profiling.obey(read, event_log)
        made.steps(1)
        profiling.pass_on()
    made.steps(2)
    assert [profiler for profiler, _, _ in made.ranges()] == ["operators", "python"]
    send_order(job, {"profile": {"id": "3", "steps": 1}})
    profiling.obey(windows.orders(job.control()), event_log)
    made.steps(2)
    assert [profiler for profiler, _, _ in made.ranges()] == ["operators", "python", "operators"]


def test_orders_of_older_versions_and_of_a_minute_ago():
    assert windows.orders({}) == []
    assert windows.orders({"profile": {"id": "old"}}) == [{"id": "old"}]
    assert windows.orders({"profile": {"id": "2"}, "profiles": [[1, {"id": "1"}], 5, ["x", {}]]}) == [
        {"id": "1"},
        {"id": "2"},
    ]
    told: dict = {"stop": None}
    for at in (0.0, 30.0, 65.0):
        told = windows.with_order(told, {"id": at}, at)
    assert told == {
        "stop": None,
        "profile": {"id": 65.0},
        "profiles": [[30.0, {"id": 30.0}], [65.0, {"id": 65.0}]],
    }
    for at in range(100):
        told = windows.with_order(told, {"id": at}, 65.0)
    assert [one["id"] for one in windows.orders(told)] == list(range(68, 100))
