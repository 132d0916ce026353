"""The names users write in their own loops: with-blocks, decorators, tasks, steps, numbers; on and off."""

import asyncio
import math
import subprocess
import sys
import time

import pytest
from tests.recorder.reading import environment, only, run

import holter
from holter.recorder import session as sessions


def spans(spool):
    return [(s.phase, s.name) for s in only(spool).main.spans]


def test_annotate_nests(session, spool):
    with holter.annotate("outer"), holter.annotate("inner"):
        pass
    assert spans(spool) == [("annotation", "inner"), ("annotation", "outer")]


def test_annotate_is_a_decorator_that_keeps_the_function(session, spool):
    @holter.annotate("work")
    def function(a, *, b=2):
        """Add."""
        return a + b

    assert (function(1), function(1, b=5), function.__name__, function.__doc__) == (3, 6, "function", "Add.")
    assert spans(spool) == [("annotation", "work")] * 2


def test_decorated_function_calls_itself(session, spool):
    @holter.annotate("fib")
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    assert fib(6) == 8
    assert len(spans(spool)) == 25
    assert only(spool).main.open == []


def test_decorated_generator_and_coroutine_are_timed_for_as_long_as_they_live(session, spool):
    @holter.annotate("generator")
    def generator():
        received = yield 1
        yield received

    @holter.annotate("coroutine")
    async def coroutine():
        await asyncio.sleep(0.01)
        return 7

    g = generator()
    assert (next(g), g.send("back")) == (1, "back")
    assert list(g) == []
    assert asyncio.run(coroutine()) == 7
    first, second = only(spool).main.spans
    assert (first.name, second.name) == ("generator", "coroutine")
    assert second.duration >= 9_000_000


def test_async_generator_stays_what_it_is_and_is_told(session, capfd):
    async def numbers():
        received = yield 1
        yield received

    assert holter.annotate("numbers")(numbers) is numbers
    assert "cannot record an async generator" in capfd.readouterr().err


def test_tasks_of_one_loop_overlap_without_confusion(session, spool):
    inside, around = [], []

    async def task(name, seconds):
        begun = time.perf_counter_ns()
        with holter.annotate(name):
            entered = time.perf_counter_ns()
            await asyncio.sleep(seconds)
            inside.append(time.perf_counter_ns() - entered)
        around.append(time.perf_counter_ns() - begun)

    async def main():
        await asyncio.gather(task("long", 0.06), task("short", 0.01), task("long", 0.03))

    asyncio.run(main())
    durations = [(s.name, s.duration) for s in only(spool).main.spans]
    assert [name for name, _ in durations] == ["short", "long", "long"]
    for least, (_, duration), most in zip(inside, durations, around, strict=True):
        assert least <= duration <= most
    assert inside[1] >= 0.03e9


def test_generators_that_interleave_end_their_own_spans(session, spool):
    def worker(name):
        with holter.annotate(name):
            yield

    a, b = worker("a"), worker("b")
    next(a)
    next(b)
    assert list(a) == list(b) == []
    assert spans(spool) == [("annotation", "a"), ("annotation", "b")]
    assert only(spool).main.open == []


def test_begin_and_end_by_name_or_innermost(session, spool):
    holter.annotation_begin("a")
    holter.annotation_begin("b")
    holter.annotation_end()
    holter.annotation_end("a")
    assert spans(spool) == [("annotation", "b"), ("annotation", "a")]
    holter.annotation_end()
    holter.annotation_end("a")
    assert session.fault_counts == {"annotation_end": 1, "spans": 1}


def test_log_keeps_every_number(session, spool):
    holter.log(loss=1.5, lr=1e-3)
    holter.log(loss=float("nan"), step=41)
    holter.log(loss=float("-inf"))
    values = [(s.name, s.step, s.value) for s in only(spool).main.spans]
    assert values[:2] == [("loss", 0, 1.5), ("lr", 0, 1e-3)]
    assert values[2][:2] == ("loss", 41)
    assert math.isnan(values[2][2])
    assert values[3] == ("loss", 0, float("-inf"))


def test_log_of_what_is_no_number_is_told_once(session, spool, capfd):
    for _ in range(3):
        holter.log(loss="high")
    holter.log(loss=1)
    assert [s.value for s in only(spool).main.spans] == [1.0]
    assert session.fault_counts == {"scalar": 3}
    assert capfd.readouterr().err.count("\n") == 1


def test_a_step_that_no_record_holds_is_missing_and_told(session, spool, capfd):
    large = (0, 2**31 - 1, 2**31, 3_000_000_000, 2**32 - 1, 2**32, 15 * 10**12, 2**53 - 1)
    for step in (*large, 2**53, -2):
        holter.log(frames=1.0, step=step)
    assert [s.step for s in only(spool).main.spans] == [*large, -1, -1]
    assert session.fault_counts == {"step": 2}
    assert "step 9007199254740992 of 'frames' is not from 0 to 9,007,199,254," in capfd.readouterr().err


def test_step_counts_and_takes_in_what_came_before_it(session, spool):
    for _ in range(2):
        with holter.annotate("load"):
            pass
        with holter.step("eval"):
            pass
    session.boundary()  # an adapter's boundary does not count next to the user's own
    steps = only(spool).spans("step")
    assert [(s.step, s.mode) for s in steps] == [(0, 2), (1, 2)]
    load = only(spool).spans("annotation")[1]
    assert steps[1].begin <= load.begin


def test_step_that_raises_is_no_step(session, spool):
    with pytest.raises(KeyError), holter.step():
        raise KeyError
    with holter.step():
        pass
    assert [s.step for s in only(spool).spans("step")] == [0]


def test_unknown_mode_names_the_known_ones():
    with pytest.raises(ValueError, match=r"'training'.*global, train, eval, predict"):
        holter.step("training")


def test_off_everything_is_quiet_and_leaves_nothing(spool, capfd):
    assert sessions.current is None
    with holter.annotate("a"), holter.step():
        holter.log(loss=1)
    holter.annotation_begin("a")
    holter.annotation_end()
    holter.annotation_end("a")
    assert holter.annotate("f")(lambda x: x)(3) == 3
    assert list(spool.iterdir()) == []
    assert capfd.readouterr().err == ""


def test_what_was_decorated_while_off_records_once_on(spool, start):
    decorated = holter.annotate("made while off")(lambda: 5)
    decorated()
    start()
    assert decorated() == 5
    assert spans(spool) == [("annotation", "made while off")]


def test_exception_passes_with_its_own_traceback(session, spool):
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught, holter.annotate("a"):
        raise error
    assert caught.value is error
    assert spans(spool) == [("annotation", "a")]


def test_too_many_names_are_counted_and_read_other(spool):
    code = """
import holter
for i in range(65_600):
    with holter.annotate(f"name {i}"): pass
"""
    done = run(spool, code)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    process = only(spool)
    names = [s.name for t in process.threads.values() for s in t.spans]
    assert names[:65_534] == [f"name {i}" for i in range(65_534)]
    assert set(names[65_534:]) == {"(other)"}
    assert len(names) == 65_600
    assert process.facts("fault")[-1]["count"] == 66


def test_import_is_light_and_disable_means_nothing(spool):
    code = "import sys, holter; print(sorted(m for m in sys.modules if m.startswith('holter')))"
    # -S: what `site` of this environment imports is not ours.
    alone = subprocess.run(
        [
            sys.executable,
            "-S",
            "-X",
            "importtime",
            "-c",
            "import sys; sys.path.insert(0, sys.argv[1]); " + code,
            _src(),
        ],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert alone.stdout == "['holter']\n"
    (line,) = [text for text in alone.stderr.splitlines() if text.endswith("| holter")]
    assert int(line.split("|")[1]) < 30_000
    disabled = run(
        spool,
        "import sys; print('holter' in sys.modules)",
        env=environment(spool, HOLTER_DISABLE=1),
    )
    assert (disabled.stdout, disabled.stderr) == ("False\n", "")


def _src():
    from tests.recorder.reading import SOURCE

    return str(SOURCE)


@pytest.mark.parametrize("steps", [0, 65_537])
def test_a_block_runs_a_possible_number_of_steps(session, steps):
    with pytest.raises(ValueError, match=f"steps {steps} of holter.step is not possible; 1 to 65,536 are"):
        holter.step(steps=steps)


def test_the_script_stands_above_a_trainer_and_a_trainer_above_a_framework(session):
    assert session.claim_steps("xgboost")
    assert not session.claim_steps("lightgbm")
    assert session.claim_steps("keras")
    assert not session.claim_steps("xgboost")
    session.release_steps("xgboost")
    assert session.step_owner == "keras"
    with holter.step():
        pass
    assert session.step_owner == "script"
    assert not session.claim_steps("keras")


def test_whoever_trains_gets_the_steps_of_a_training_that_has_ended(session):
    for train in (lambda: session.claim_steps("jax"), session.boundary):
        assert session.claim_steps("xgboost")
        session.release = lambda: session.release_steps("xgboost")
        before = session.step
        train()
        assert session.step_owner != "xgboost"
        assert session.release is None
        session.release_steps("jax")
    assert session.step == before + 1


def test_the_journal_names_the_owner_of_steps_once(session, spool):
    for _ in range(3):
        session.claim_steps("xgboost")
        session.boundary(manual=True)
        session.release_steps("xgboost")
    session.claim_steps("lightgbm")
    session.release = lambda: session.release_steps("lightgbm")
    session.end_open_round()
    session.end_open_round()
    assert [fact["owner"] for fact in only(spool).facts("owner")] == ["xgboost", "lightgbm", ""]


def test_the_number_of_the_next_step_counts_all_steps_of_a_call(session, spool):
    for _ in range(3):
        with holter.step(steps=7):
            holter.log(value=1.0)
    with holter.step():
        pass
    records = [(s.step, s.value) for s in only(spool).main.spans if s.phase == "step"]
    assert [step for step, _ in records] == [0, 7, 14, 21]
    assert [value for _, value in records[:3]] == [7.0] * 3
    assert math.isnan(records[3][1])
    assert session.step == 22
    assert session.stride == 1
