"""Own code: how stack samples of the loop become functions, waits and shares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.analysis.steps.own_code import (
    MIN_SAMPLES,
    OwnCode,
    awaiting,
    divided,
    iterating,
    own_code,
    reading,
)
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table

MS = 1_000_000


def steps(count, *, checkpoints=(), ms=100):
    numbers = np.arange(count)
    columns = {part: np.zeros(count, np.int64) for part in BREAKDOWN}
    columns["checkpoint"][list(checkpoints)] = MS
    columns["other"][:] = ms * MS
    return Table(
        {"time": numbers * ms * MS, "duration": np.full(count, ms * MS), "rank": np.zeros(count, np.int32)}
        | {"step": numbers, **columns}
    )


def spans(rows):
    """Return spans from (phase, name, step, begin ms, duration ms)."""
    phase, name, step, begin, took = zip(*rows, strict=True)
    return Table(
        {
            "phase": np.array(phase),
            "name": np.array(name, dtype=object),
            "step": np.array(step),
            "rank": np.zeros(len(rows), np.int32),
            "worker": np.full(len(rows), -1),
            "time": np.array(begin) * MS,
            "duration": np.array(took) * MS,
            "value": np.full(len(rows), np.nan),
        }
    )


def stacks(names, **changes):
    return spans([("loop_stack", name, at, at * 100 + 50, 20) for at, name in enumerate(names)])


@pytest.mark.parametrize(
    ("name", "text", "waits"),
    [
        ("main (a.py:9);stall (a.py:4) > time.sleep", "time.sleep, called by stall (a.py:4)", "sleep"),
        (
            "main (a.py:9);stream (a.py:4) [generator] > time.sleep",
            "generator stream (a.py:4), in time.sleep",
            "sleep",
        ),
        (
            "main (a.py:9);tqdm.__iter__ (tqdm/std.py:2);rows (a.py:4) [generator];read (a.py:7) > f.read",
            "generator rows (a.py:4), mostly in read (a.py:7), in f.read",
            "file",
        ),
        ("main (a.py:9);It.__next__ (a.py:4) [iterator]", "It.__next__ (a.py:4)", None),
        (
            "main (a.py:9) > q.get > Queue.get (queue.py:171) < thread t 1;fill (a.py:3);decode (a.py:7)",
            "main (a.py:9) waits for a queue that thread t 1 fills in fill (a.py:3); it spends its time in "
            "decode (a.py:7)",
            "queue",
        ),
        (
            "main (a.py:9) > q.get & thread t;fill (a.py:3)",
            "main (a.py:9) waits for a queue, while thread t works in fill (a.py:3)",
            "queue",
        ),
        (
            "main (a.py:9) > q.get > get (multiprocessing/queues.py:103) < process Process-1",
            "main (a.py:9) waits for a queue that process Process-1 fills",
            "queue",
        ),
        (
            "main (a.py:9) > f.result > Condition.wait (threading.py:1) & thread t;work (a.py:3)",
            "f.result, called by main (a.py:9), while thread t works in work (a.py:3)",
            "lock",
        ),
        (
            "main (a.py:9);Prefetch.__next__ (lib.py:3) [iterator] > fun > Condition.wait (threading.py:1)"
            " & thread t;decode (a.py:3)",
            "the loop waits for thread t, which works in decode (a.py:3)",
            "lock",
        ),
        ("main (a.py:9) > gc.collect", "gc.collect, called by main (a.py:9)", "garbage collection"),
        (
            "main (a.py:9) > batches.get > Condition.wait (threading.py:327)",
            "batches.get, called by main (a.py:9)",
            "lock",
        ),
        (
            "main (a.py:9) > q.get > Queue.get (multiprocessing/queues.py:103)",
            "main (a.py:9) waits for a queue (q.get)",
            "queue",
        ),
        ("main (a.py:9);count (a.py:3)", "count (a.py:3)", None),
        ("main (a.py:9) > env.step > Env.step (gym/core.py:3)", "main (a.py:9), calling env.step", None),
        ("(other)", "(other) (:0)", None),
    ],
)
def test_a_stack_names_function_place_and_wait(name, text, waits):
    (found,) = own_code(stacks([name] * 20), steps(20), 80.0)
    assert (found.text, found.waits_in, round(found.pct, 6)) == (text, waits, 80.0)


def test_the_line_is_the_one_with_most_time():
    (found,) = own_code(stacks(["f (a.py:3)"] * 4 + ["f (a.py:5)"] * 9), steps(20), 50.0)
    assert found.line == 5


def test_a_wait_for_a_queue_loads_data_and_names_the_usual_function_of_its_producer():
    wait, thread = "main (a.py:9) > q.get > Queue.get (queue.py:171)", "thread t;fill (a.py:3)"
    names = [f"{wait} < {thread};load (a.py:{line})" for line in (5, 6, 6, 6, 7)] + [f"{wait} < {thread}"] * 3
    (found,) = own_code(stacks([*names, wait, wait]), steps(20), 50.0)
    assert found.iterates
    assert found.produces == ("fill (a.py:3)", "load (a.py:6)")
    (lock,) = own_code(stacks([f"main (a.py:9) > x.acquire < {thread}"] * 9), steps(20), 50.0)
    assert not lock.iterates
    (full,) = own_code(stacks(["main (a.py:9) > q.put > Queue.put (queue.py:140)"] * 9), steps(20), 50.0)
    assert (full.iterates, full.waits_in) == (False, "queue")


def test_a_stall_is_the_work_of_one_step():
    rows = [("loop_stack", "f (a.py:3) > time.sleep", 7, 700 + at, 20) for at in range(30)]
    (found,) = own_code(spans(rows), steps(20), 50.0)
    assert (found.step, found.step_share) == (7, 1.0)


def test_code_that_runs_with_checkpoints_only_belongs_to_them():
    rows = [("loop_stack", "save (a.py:3) > time.sleep", at % 2 * 10, 50, 20) for at in range(20)]
    rows += [("loop_stack", "log (a.py:8)", at, at * 100 + 50, 20) for at in range(20)]
    found = own_code(spans(rows), steps(20, checkpoints=(0, 10)), 50.0)
    assert {one.function: one.checkpoints for one in found} == {"save": True, "log": False}
    # Where every step saves, nothing tells them apart.
    found = own_code(spans(rows), steps(20, checkpoints=range(20)), 50.0)
    assert not any(one.checkpoints for one in found)


def test_samples_inside_the_loss_are_left_out():
    names = ["loss (a.py:3)"] * 20
    known = [("loss", "", at, at * 100 + 60, 30) for at in range(20)]
    rows = [("loop_stack", name, at, at * 100 + 50, 20) for at, name in enumerate(names)]
    assert own_code(spans(rows + known), steps(20), 50.0) == []


def test_few_samples_name_nothing():
    assert own_code(stacks(["f (a.py:3)"] * (MIN_SAMPLES - 1)), steps(20), 50.0) == []


@given(
    st.lists(st.sampled_from(["f (a.py:3)", "g (a.py:4) > time.sleep", "m (a.py:1);i (b.py:2) [iterator]"]))
)
def test_shares_add_up(names):
    found = own_code(stacks(names), steps(len(names)), 70.0) if names else []
    split = dict.fromkeys(BREAKDOWN, 0.0) | {"other": 70.0, "forward": 30.0}
    if len(names) >= MIN_SAMPLES:
        assert sum(one.pct for one in found) == pytest.approx(70.0)
    moved = divided(split, iterating(found))
    assert sum(moved.values()) == pytest.approx(100.0)
    assert moved["data_loading"] == pytest.approx(sum(one.pct for one in found if one.iterates))


@given(st.text(), st.text())
def test_any_name_is_read(first, second):
    found = own_code(stacks([first] * 5 + [f"{first};{second}"] * 5), steps(20), 10.0)
    assert sum(one.pct for one in found) == pytest.approx(10.0)


def test_a_comprehension_is_work_of_its_function():
    names = ["m (a.py:9);count (a.py:4)", "m (a.py:9);count (a.py:4);count.<genexpr> (a.py:4)"] * 4
    names += ["m (a.py:9);make.<locals>.inner (a.py:7)"] * 2
    found = own_code(stacks(names), steps(10), 50.0)
    assert [(one.function, round(one.pct)) for one in found] == [("count", 40), ("make.<locals>.inner", 10)]


def test_a_call_is_named_if_it_takes_most_of_its_function():
    def shown(*calls):
        names = [f"main (a.py:9);run (a.py:{at}) > {call}" for at, call in enumerate(calls)]
        found = own_code(stacks([*names, *["main (a.py:7);other (b.py:4)"] * 6]), steps(12), 48.0)
        return [(one.text, round(one.pct), one.waits_in) for one in found if one.function == "run"]

    many = shown("time.sleep", "time.sleep", "zero_grad", "step", "clip", "log")
    assert many == [("run (a.py:0)", 24, None)], "sleeping does not take 24 %"
    most = shown("time.sleep", "time.sleep", "time.sleep", "time.sleep", "clip", "log")
    assert most == [("time.sleep, called by run (a.py:0)", 24, "sleep")]


def test_calls_of_the_function_that_holds_the_loop_are_told_apart():
    names = ["<module> (a.py:9) > envs.step"] * 4 + [
        "<module> (a.py:9) > envs.step > step (gym/core.py:7)"
    ] * 4
    names += ["<module> (a.py:12)"] * 5 + ["<module> (a.py:7);act (a.py:3)"] * 7
    found = own_code(stacks(names), steps(20), 60.0)
    top = "top-level code (a.py:9), calling envs.step"
    shown = [(top, 24), ("act (a.py:3)", 21), ("top-level code (a.py:12)", 15)]
    assert [(one.text, round(one.pct)) for one in found] == shown
    assert [one.holds_loop for one in found] == [True, False, True]
    small = own_code(stacks(names), steps(20), 12.0)
    assert [(one.text, round(one.pct)) for one in small] == [
        (top, 8),
        ("act (a.py:3)", 4),
    ]


def test_time_in_collections_is_that_of_the_function_that_collects():
    """The sampler wakes after a collection, often in the generator that the loop asks next."""
    late = "main (a.py:9);rows (a.py:4) [generator] > torch.randn"
    calls = "main (a.py:9);clean (a.py:7) > gc.collect"
    sampled = [("loop_stack", calls if at < 3 else late, at, at * 100, 100) for at in range(20)]
    pauses = [("gc", "gc", at, at * 100, 95) for at in range(20)]
    first, second = own_code(spans(sampled + pauses), steps(20), 98.0)
    assert (first.text, second.text) == (
        "gc.collect, called by clean (a.py:7)",
        "generator rows (a.py:4), calling torch.randn",
    )
    assert (first.pct, second.pct) == (
        pytest.approx(98 * (300 + 17 * 95) / 2000),
        pytest.approx(98 * 17 * 5 / 2000),
    )


def test_a_collection_that_no_function_asks_for_stays_where_it_was_sampled():
    sampled = [("loop_stack", "main (a.py:9) > build", at, at * 100, 100) for at in range(9)]
    pauses = [("gc", "gc", at, at * 100, 95) for at in range(9)]
    (only,) = own_code(spans(sampled + pauses), steps(9), 80.0)
    assert only.pct == pytest.approx(80)


def test_a_wait_without_a_named_call_names_its_place():
    waiting = OwnCode(
        "<module>", "train.py", 18, 11.0, "", "lock", iterates=False, step=1, step_share=0.1,
        checkpoints=False, producer="thread fill", produces=("decode (train.py:9)",),
    )  # fmt: skip
    assert (
        waiting.text == "top-level code (train.py:18) waits, while thread fill works in decode (train.py:9)"
    )


def test_reading_an_array_waits_for_a_device_that_computes_meanwhile():
    names = [
        *6 * ["main (a.py:9) > np.asarray"],
        *6 * ["main (a.py:9);note (a.py:4) > np.array"],
        *6 * ["main (a.py:9);log (a.py:5) > len"],
        *6 * ["main (a.py:9);rows (a.py:7) [generator] > np.asarray"],
    ]
    own = own_code(stacks(names), steps(24), 80.0)
    assert awaiting(own) == 0
    marked = reading(own, 45.0)
    assert {one.function: one.waits_in for one in marked} == {
        "main": "device",
        "note": "device",
        "log": None,
        "rows": None,
    }
    assert awaiting(marked) == pytest.approx(0.5)
    split = {"compute": 20.0, "data_loading": 0.0, "other": 80.0}
    assert divided(split, iterating(marked), awaiting(marked)) == pytest.approx(
        {"compute": 60.0, "data_loading": 20.0, "other": 20.0}
    )
    # A device that is idle meanwhile is not waited for: the call converts.
    assert reading(own, 5.0) == own
