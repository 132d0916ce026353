"""Threads that hold the interpreter: their share, function and line, from samples and the thread's state."""

from __future__ import annotations

import pytest
from tests.rules.tables import SECOND, START, steps

from holter.analysis.loading.dataloading import DataLoading
from holter.analysis.machine.threads import ThreadShares
from holter.analysis.steps.holders import holders
from holter.analysis.steps.own_code import OwnCode
from holter.schema.phases import HOLDS
from holter.schema.table import Table

STEPS = steps([0.1] * 100, forward=0.5, data_loading=0.2, communication=0.1, backward=0.2)
SPLIT = {"forward": 50.0, "data_loading": 20.0, "communication": 10.0, "backward": 20.0}
COLLECT = ("thread metrics;run (a.py:9);collect (a.py:12)", "thread metrics;run (a.py:9);collect (a.py:13)")


def sampled(names, *, value=HOLDS, seconds=0.2):
    rows = [
        {
            "time": START + round(at * 10 / len(names) * SECOND),
            "duration": round(seconds * SECOND),
            "rank": 0,
            "phase": "loop_stack",
            "name": name,
            "value": value,
        }
        for at, name in enumerate(names)
    ]
    return Table.of("spans", rows)


def state(blocked):
    return [
        ThreadShares(0, "training_loop", 100 - blocked, 0.0, blocked, 20),
        ThreadShares(0, "forward", 0.0, 0.0, 100.0, 20),
    ]


def found(names, *, blocked=80.0, own=(), loading=None, device="cpu", **given):
    rows = sampled(names, **given)
    return holders(rows, STEPS, state(blocked), own, SPLIT, loading=loading, device=device)


IN_PROCESS = DataLoading(share_pct=20.0, stages={}, workers=0)


def test_thread_function_and_line_are_those_with_most_of_the_time():
    (one,) = found([COLLECT[0]] * 30 + [COLLECT[1]] * 20, loading=IN_PROCESS)
    assert one.text == "thread metrics holds the interpreter: collect (a.py:12)"
    assert one.pct == pytest.approx(70), "blocked less communication"


def test_the_share_is_no_larger_than_the_time_it_held_the_interpreter():
    (one,) = found(COLLECT * 10, seconds=0.1)
    assert one.pct == pytest.approx(20)


@pytest.mark.parametrize(
    ("device", "loading", "pct"),
    [("cpu", IN_PROCESS, 70), ("cpu", None, 50), ("cuda", IN_PROCESS, 50), (None, None, 30)],
)
def test_what_a_training_thread_waits_for_otherwise_is_left_out(device, loading, pct):
    (one,) = found(COLLECT * 25, device=device, loading=loading)
    assert one.pct == pytest.approx(pct)


def test_a_thread_that_runs_or_waits_elsewhere_is_not_held():
    assert found(COLLECT * 25, blocked=30.0) == []
    sleeps = own(pct=50.0, waits_in="sleep")
    assert found(COLLECT * 25, own=[sleeps]) == []
    assert found(COLLECT[:1] * 4) == [], "few samples"
    assert found(COLLECT * 25, value=float("nan")) == [], "samples of the training thread"


def own(*, pct, waits_in=None, producer=None):
    return OwnCode(
        function="f", file="a.py", line=3, pct=pct, calls="g", waits_in=waits_in, iterates=False, step=1,
        step_share=0.1, checkpoints=False, producer=producer,
    )  # fmt: skip


def test_a_producer_is_named_as_such_and_not_twice():
    assert found(COLLECT * 25, own=[own(pct=5.0, waits_in="queue", producer="thread metrics")]) == []


def test_several_threads_share_the_time():
    other = ["thread log;<module> (b.py:1);write.<genexpr> (b.py:4)"] * 12
    first, second = found([*COLLECT * 24, *other], seconds=1 / 6, loading=IN_PROCESS)
    assert (first.thread, second.thread) == ("thread metrics", "thread log")
    assert first.pct + second.pct == pytest.approx(70)
    assert first.pct == pytest.approx(4 * second.pct, rel=0.01)
