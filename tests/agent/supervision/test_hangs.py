"""When silence counts as a hang, what is said of it, and real processes that hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from tests.agent.conftest import until
from tests.agent.spool import Writer

from holter.agent.drain.clock import Clock
from holter.agent.drain.drain import Drain
from holter.agent.supervision.hangs import HangLimits, Silence, diagnosis
from holter.agent.supervision.process_monitor import ProcessMonitor
from holter.agent.supervision.stack_groups import odd_ranks, sentence, stack_groups
from holter.agent.supervision.stacks import StackFrame, common_frame, loop_stack, own_frame
from holter.schema.phases import Phase

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("durations_s", "phase", "median_s", "expected"),
    [
        ([], None, None, 1800),
        ([0.1] * 200, None, None, 120),
        ([20.0] * 200, None, None, 200),
        ([0.1] * 197 + [30.0] * 3, None, None, 300),
        ([500.0] * 200, None, None, 1800),
        ([0.1] * 200, "checkpoint", 60.0, 300),
        ([0.1] * 200, "checkpoint", None, 1800),
        ([0.1] * 200, "eval", 10_000.0, 1800),
        ([0.1] * 200, "forward", None, 120),
    ],
)
def test_the_limit_comes_from_the_job_s_own_steps(durations_s, phase, median_s, expected):
    durations = [int(s * SECOND) for s in durations_s]
    assert HangLimits().limit_s(durations, phase, median_s) == pytest.approx(expected)


@pytest.mark.parametrize("wrong", [{"min_s": 0}, {"min_s": 10, "max_s": 5}, {"factor": 0.5}, {"extend": -1}])
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="hang limits"):
        HangLimits(**wrong)


@pytest.mark.parametrize(
    ("phases", "cpu", "states", "trainers", "kind"),
    [
        (["data_loading"], 0.5, ["S"], 1, "data_starved"),
        (["communication", "communication"], 100.0, ["R", "R"], 3, "collective_hang"),
        (["backward", "backward"], 100.0, ["R", "R"], 2, "collective_hang"),
        (["backward"], 0.0, ["S"], 1, "deadlock"),
        (["forward"], 0.0, ["D"], 1, "storage"),
        ([None], 99.0, ["R"], 1, "unknown"),
    ],
)
def test_what_kind_of_hang_it_is(phases, cpu, states, trainers, kind):
    silences = [Silence(rank, 200.0, 120.0, phase, 9) for rank, phase in enumerate(phases)]
    found, text = diagnosis(silences, cpu_pct=cpu, states=states, trainers=trainers)
    assert found == kind
    assert ("rank 0" in text) if len(phases) == 1 else ("ranks 0, 1" in text)


DUMP = """\
Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/usr/lib/python3.11/threading.py", line 975 in run

Current thread 0x00007f0000000002 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2000 in all_reduce
  File "/home/ada/train.py", line 42 in step
  File "/home/ada/train.py", line 60 in <module>
"""


def test_the_main_thread_s_stack_is_found():
    frames = loop_stack(DUMP)
    assert [frame.function for frame in frames] == ["all_reduce", "step", "<module>"]
    assert str(own_frame(frames)) == "step (/home/ada/train.py:42)"
    assert loop_stack(DUMP, 0x7F0000000003) == frames, "a thread that the text does not name"
    assert [frame.function for frame in loop_stack(DUMP, 0x7F0000000001)] == ["wait", "run"]
    assert loop_stack("") == []
    assert loop_stack("nonsense\n  File x\n") == []


def test_the_frame_that_most_stand_in():
    a, b = [StackFrame("x.py", 1, "f")], [StackFrame("y.py", 2, "g")]
    assert common_frame([a, a, b, []]) == ("f (x.py:1)", 2)
    assert common_frame([[], []]) is None


WAITS = [StackFrame("/lib/site-packages/torch/c10d.py", 7, "all_reduce"), StackFrame("train.py", 40, "main")]
STUCK = [StackFrame("train.py", 12, "stuck"), StackFrame("train.py", 30, "main")]


def test_the_rank_that_stands_elsewhere_is_named_first():
    groups = stack_groups({rank: STUCK if rank == 5 else WAITS for rank in range(8)})
    assert odd_ranks(groups) == [5]
    assert sentence(groups) == (
        "rank 5 is in stuck (train.py:12); "
        "7 ranks are in all_reduce (/lib/site-packages/torch/c10d.py:7), called from main (train.py:40)"
    )
    assert odd_ranks(stack_groups({0: STUCK, 1: WAITS, 2: []})) == [], "either may be the odd one"
    assert odd_ranks(stack_groups(dict.fromkeys(range(4), WAITS))) == []
    stopped = stack_groups(dict.fromkeys(range(3), WAITS), [3])
    assert sentence(stopped).startswith("rank 3 is stopped by a signal; ranks 0, 1, 2 are in all_reduce")


@pytest.mark.slow
def test_a_stopped_rank_for_which_another_waits_is_named(start, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import holter, os, time\nopen(f\"{os.environ['RANK']}.pid\", 'w').write(str(os.getpid()))\n"
        "for step in range(10**6):\n    with holter.step():\n        time.sleep(0.02)\n"
        "    while os.environ['RANK'] == '0' and os.path.exists('stop'):\n        time.sleep(0.1)\n"
    )
    train = f"{sys.executable} {path}"
    command = f"cd {tmp_path}; RANK=0 WORLD_SIZE=2 {train} & RANK=1 WORLD_SIZE=2 {train}"
    run = start("sh", "-c", command)
    until(
        lambda: (
            run.rows("spans")
            and run.trial.sql("SELECT count(DISTINCT rank) AS n FROM spans WHERE step > 20")["n"][0] == 2
        )
    )
    (tmp_path / "stop").touch()
    pid = int((tmp_path / "1.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: run.events("hang"))
    finally:
        os.kill(pid, signal.SIGCONT)
    run.folder.order(stop={"grace_s": 2})
    run.wait()
    found = run.events("hang")[0]
    assert (found["name"], found["rank"], found["detail"]["ranks"]) == ("stopped_rank", 1, [0])
    assert found["detail"]["text"].startswith("rank 1 is stopped by a signal; rank 0 ")


def watched(tmp_path, limits: HangLimits):
    """A training of files whose main thread stands in forward in step 40, and who watches it."""
    drain = Drain(tmp_path, Clock.now())
    training = Writer(tmp_path, rank=0, world_size=1)
    training.steps(40)
    training.head(step=40, open_=[(time.monotonic_ns(), Phase.FORWARD, "Net")])
    poll(drain, time.monotonic_ns())
    return training, drain, ProcessMonitor(drain, limits)


def poll(drain: Drain, now: int) -> None:
    """Take all: a record counts as complete when it is seen a second time."""
    for _ in range(2):
        drain.poll(now=now)


@pytest.mark.parametrize(("run", "lost"), [(None, ["rank 1 vanished"]), ("run", [])])
def test_the_controller_of_a_run_watches_its_own_workers(tmp_path, run, lost):
    """Ray Train ends and restarts its workers itself: none of them is lost."""
    drain = Drain(tmp_path, Clock.now())
    monitor = ProcessMonitor(drain, HangLimits())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        for pid, rank in ((None, 0), (other.pid, 1)):
            worker = Writer(tmp_path, pid=pid, rank=rank, world_size=2)
            worker.journal(rank={"rank": rank, "world_size": 2, "run": run})
            worker.steps(3)
        poll(drain, time.monotonic_ns())
        assert monitor.look(time.monotonic_ns()) == []
        other.communicate(b"\n")
    until(lambda: poll(drain, time.monotonic_ns()) or any(one.died for one in drain.trainers()))
    assert [event.name for event in monitor.look(time.monotonic_ns()) if event.kind == "lost"] == lost


def told(events) -> list[str]:
    return [event.name for event in events if event.kind == "hang"]


@pytest.fixture
def hung(tmp_path):
    """A training that hangs, of which everybody was told; its clock stands at the third value."""
    training, drain, watch = watched(tmp_path, HangLimits(min_s=1, max_s=10))
    now = time.monotonic_ns() + 2 * SECOND
    assert told(watch.look(now)) == []
    now += 2 * SECOND
    assert len(told(watch.look(now))) == 1
    return training, drain, watch, now


def interrupted(training: Writer, drain: Drain, now: int) -> None:
    """What the agent sees in the moment in which Ctrl-C unwinds: the span is over, no exception is noted."""
    training.put(Phase.FORWARD, now - 4 * SECOND, 4 * SECOND, step=40, name="Net")
    training.put(Phase.CHECKPOINT, now, SECOND // 10, step=40)
    training.head(step=40)
    poll(drain, now)


def test_a_training_that_is_woken_up_to_end_has_hung_to_its_end(hung):
    training, drain, watch, now = hung
    interrupted(training, drain, now)
    assert told(watch.look(now + SECOND)) == []
    assert watch.hanging
    training.journal(end={"time": now + SECOND, "cost_ns": 0})
    drain.poll(final=True)
    assert told(watch.end(now + 2 * SECOND, well=False)) == []
    assert watch.hanging


def test_a_hang_is_over_when_the_training_begins_something_new(hung):
    training, drain, watch, now = hung
    interrupted(training, drain, now)
    training.put(Phase.BACKWARD, now, SECOND // 10, step=40)
    poll(drain, now + SECOND)
    assert told(watch.look(now + SECOND)) == ["recovered"]
    assert not watch.hanging


def test_a_training_that_ends_well_has_left_its_hang(hung):
    training, drain, watch, now = hung
    training.journal(end={"time": now, "cost_ns": 0})
    drain.poll(final=True)
    assert told(watch.end(now, well=True)) == ["recovered"]
    assert not watch.hanging


def test_a_hang_of_a_moment_is_not_told_and_one_that_the_end_cuts_short_is(tmp_path):
    training, drain, watch = watched(tmp_path, HangLimits(min_s=1, max_s=10))
    now = time.monotonic_ns() + 2 * SECOND
    watch.look(now)
    training.put(Phase.BACKWARD, now + 1, 1, step=40)
    poll(drain, now + SECOND)
    assert told(watch.look(now + SECOND)) == []
    now += 3 * SECOND
    assert told(watch.look(now)) == [], "another one began just now: its stacks are awaited"
    (kind,) = told(watch.end(now, well=False))
    assert kind != "recovered"


SCRIPT = """
import holter, os, sys, time
def stuck():
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.3)
for step in range(160):
    with holter.step():
        time.sleep(0.01)
        if step == 40:
            with holter.annotate("waiting"):
                stuck()
"""


def hangs(run, step: int = 40) -> list[dict]:
    """Return the hangs in a step; where the whole machine stood still, others may be told."""
    begun = (event for event in run.events("hang") if event["name"] != "recovered")
    return [event for event in begun if event["detail"]["step"] == step]


def test_a_hang_is_told_with_stacks_and_the_job_goes_on(start, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    go_on = tmp_path / "go-on"
    run = start(sys.executable, str(path), str(go_on), options={"hang": {"min_s": 2.0, "max_s": 3.0}})
    until(lambda: hangs(run))
    go_on.touch()
    assert run.wait() == 0
    (told,) = hangs(run)
    assert told["detail"]["ranks"] == [0]
    assert told["detail"]["kind"] == "deadlock"
    assert told["detail"]["own_frame"].startswith("stuck (")
    assert told["detail"]["silent_s"] >= 2.0
    assert run.events("hang")[-1]["name"] == "recovered"
    assert any("in stuck" in stacks["detail"]["text"] for stacks in run.events("stacks"))
    assert run.folder.manifest()["failure"] is None
    assert run.folder.manifest()["status"] == "Completed"


def test_a_job_that_is_ended_while_it_hangs(start, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    run = start(sys.executable, str(path), "never", options={"hang": {"min_s": 1.5, "max_s": 3.0}})
    until(lambda: hangs(run))
    run.process.terminate()
    assert run.wait() == 143
    failed = run.folder.manifest()["failure"]
    assert (failed["kind"], failed["step"]) == ("hang", 40)


def test_ranks_that_begin_to_hang_one_after_the_other_are_told_together(start, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        SCRIPT.replace("if step == 40:", "if step == 40 + 60 * int(__import__('os').environ['RANK']):")
    )
    train = f"{sys.executable} {path} never"
    command = f"RANK=0 WORLD_SIZE=2 {train} & RANK=1 WORLD_SIZE=2 {train}"
    run = start("sh", "-c", command, options={"hang": {"min_s": 2.0, "max_s": 4.0}})

    def told() -> list[int]:
        return [rank for step in (40, 100) for event in hangs(run, step) for rank in event["detail"]["ranks"]]

    until(lambda: {0, 1} <= set(told()))
    run.folder.order(stop={"grace_s": 2})
    run.wait()
    assert sorted(told()) == [0, 1], "each once"
    assert {event["rank"] for event in run.events("stacks") if "in stuck" in event["detail"]["text"]} == {
        0,
        1,
    }


def test_a_process_that_is_slow_to_exit_is_not_killed_by_a_question(start, tmp_path):
    """Python has put its signals back; what is left, as unmapping memory or a library's end, takes long."""
    (tmp_path / "slow.c").write_text(
        "#include <unistd.h>\n__attribute__((destructor)) static void end(void) { sleep(9); }\n"
    )
    words = ["cc", "-shared", "-fPIC", "-o", str(tmp_path / "slow.so"), str(tmp_path / "slow.c")]
    if subprocess.run(words, check=False).returncode:
        pytest.skip("a library that is slow to end needs a C compiler")
    path = tmp_path / "train.py"
    path.write_text(
        f"import ctypes, holter, time\nctypes.CDLL({str(tmp_path / 'slow.so')!r})\n"
        "for _ in range(40):\n    with holter.step():\n        time.sleep(0.01)\n"
    )
    run = start(sys.executable, str(path), options={"hang": {"min_s": 1.0, "max_s": 1.5}})
    assert run.wait() == 0
    assert run.folder.manifest()["status"] == "Completed"
    told, over = (event["detail"] for event in run.events("hang"))
    assert (told["phase"], told["step"]) == ("exit", 40)
    assert "the recording has ended, the process has not" in told["text"]
    assert over["recovered"]
