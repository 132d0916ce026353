"""How a job ended: the judgement on made-up facts, then real processes that die in each way."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.agent.conftest import until

from holter.agent.drain.journal import Process
from holter.agent.supervision.deaths import Ended, Oom, OomCounters, failure, oom_kill
from holter.analysis.verdict.failure import headline

OFFSET = 10**18
MEMORY = Path("/sys/fs/cgroup/memory")


def trainer(
    rank: int, *, died: int | None = 100, raised: tuple[int, str] | None = None, ended=False, **facts
) -> Process:
    process = Process(f"{rank}-1", 1000 + rank, 1, 1, rank=rank, died=died, checked=(died or 200) - 50)
    process.last_head_step, process.last_phase = facts.get("step", 7), facts.get("phase", "backward")
    if raised:
        time_, message = raised
        process.exception = {
            "time": OFFSET + time_,
            "type": "RuntimeError",
            "message": message,
            "step": 5,
            "phase": "forward",
        }
    if ended:
        process.end = {"time": OFFSET + 90}
    return process


def judge(ended: Ended, *trainers: Process, oom: Oom | None = None, hanging=False):
    return failure(
        ended, trainers, oom=oom, hanging=hanging, clock_offset=OFFSET, rank_of=lambda one: one.rank
    )


def test_a_clean_end_is_no_failure():
    assert judge(Ended(0), trainer(0, ended=True)) is None
    assert judge(Ended(None), trainer(0, ended=True)) is None


def test_an_exception_brings_its_own_place():
    found = judge(Ended(1), trainer(0, raised=(80, "shapes differ"), ended=True))
    assert (found["kind"], found["rank"], found["step"], found["phase"]) == ("exception", 0, 5, "forward")
    assert found["exception"] == "RuntimeError: shapes differ"


@pytest.mark.parametrize(("recorded", "step"), [(0, None), (1, 0)])
def test_a_rank_that_recorded_no_step_failed_in_none(recorded, step):
    early = trainer(0, step=0, phase=None, raised=(80, "shapes differ"), ended=True)
    early.steps = recorded
    early.exception |= {"step": 0, "phase": None}
    found = judge(Ended(1), early)
    assert (found["step"], found["exception"]) == (step, "RuntimeError: shapes differ")


def test_the_first_exception_of_several_ranks_is_the_cause():
    found = judge(
        Ended(1), trainer(0, raised=(95, "connection reset by peer")), trainer(1, raised=(80, "bad sample"))
    )
    assert (found["rank"], found["exception"]) == (1, "RuntimeError: bad sample")


LAUNCHER_SAYS = """
====
Failures:
[1]:
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 1001)  (SIGTERM)
----
Root Cause (first observed failure):
[0]:
  rank      : 0 (local_rank: 0)
  exitcode  : {code} (pid: 1000)  (said in words)
===="""

AT_END = " after step 7, when its recording had ended (rank 0)."


@pytest.mark.parametrize(
    ("code", "ended", "kind", "number", "phase", "sentence"),
    [
        (-6, True, "signal", 6, "exit", f"Killed (SIGABRT){AT_END}"),
        (-6, False, "signal", 6, "backward", "Killed (SIGABRT) in step 7 while in backward (rank 0)."),
        (
            3,
            True,
            "exception",
            None,
            "exit",
            "Failed with exit code 1 after step 7, when its recording had ended (rank 0).",
        ),
    ],
)
def test_a_rank_of_which_only_its_launcher_speaks_is_the_cause(code, ended, kind, number, phase, sentence):
    launcher = trainer(-1, raised=(95, LAUNCHER_SAYS.format(code=code)))
    launcher.role = "launcher"
    silent = trainer(0, ended=ended, died=None)
    found = judge(Ended(1), launcher, silent, trainer(1, ended=True, died=None))
    assert (found["kind"], found["rank"], found["signal"], found["phase"]) == (kind, 0, number, phase)
    assert headline({"status": "Failed", "exit_code": 1, "failure": found}, None, None) == sentence


def test_a_launcher_that_failed_by_itself_has_no_step():
    launcher = trainer(-1, raised=(95, "rendezvous timed out"))
    launcher.role = "launcher"
    found = judge(Ended(1), launcher, trainer(0, ended=True, died=None))
    assert (found["kind"], found["step"], found["rank"]) == ("exception", None, None)


def test_a_rank_that_vanished_first_is_the_cause_not_the_one_that_missed_it():
    found = judge(Ended(1), trainer(0, raised=(98, "Connection closed by peer")), trainer(1, died=100))
    assert (found["kind"], found["rank"], found["step"], found["phase"]) == ("lost", 1, 7, "backward")


def test_a_killed_rank_is_the_cause_though_the_launcher_ended_the_others_first():
    """The launcher ends all ranks at once; which of them is seen to be gone first is chance."""
    launcher = trainer(-1, raised=(95, LAUNCHER_SAYS.format(code=-9)))
    launcher.role = "launcher"
    found = judge(Ended(1), launcher, trainer(0, died=102), trainer(1, died=90))
    assert (found["kind"], found["rank"], found["signal"]) == ("signal", 0, 9)
    found = judge(Ended(1), launcher, trainer(0, died=102), trainer(1, died=90), oom=Oom("likely", "counted"))
    assert (found["kind"], found["rank"]) == ("oom", 0)


def test_a_rank_that_the_launcher_ended_after_an_exception_is_no_cause():
    found = judge(Ended(1), trainer(0, raised=(20, "bad sample")), trainer(1, died=100))
    assert (found["kind"], found["rank"]) == ("exception", 0)


def test_a_signal_and_where_it_struck():
    found = judge(Ended(None, signal.SIGKILL), trainer(0))
    assert (found["kind"], found["signal"], found["step"], found["phase"]) == ("signal", 9, 7, "backward")
    assert "SIGKILL" in found["evidence"]


def test_killed_for_want_of_memory_with_how_sure_that_is():
    found = judge(Ended(None, signal.SIGKILL), trainer(0), oom=Oom("likely", "counted"))
    assert (found["kind"], found["certainty"], found["evidence"]) == ("oom", "likely", "counted")


def test_out_of_memory_does_not_explain_another_signal():
    assert judge(Ended(None, signal.SIGTERM), trainer(0), oom=Oom("certain", ""))["kind"] == "signal"


def test_under_a_launcher_the_rank_is_named_too():
    found = judge(
        Ended(1), trainer(0, raised=(98, "Gloo: peer gone")), trainer(1), oom=Oom("certain", "counted")
    )
    assert (found["kind"], found["rank"]) == ("oom", 1)


def test_a_shell_that_tells_of_a_killed_command():
    found = judge(Ended(137), trainer(0))
    assert (found["kind"], found["signal"], found["rank"]) == ("signal", 9, 0)


def test_ended_while_it_hung():
    assert judge(Ended(None, signal.SIGTERM), trainer(0), hanging=True)["kind"] == "hang"


def test_a_bare_exit_code_says_that_nothing_is_known():
    found = judge(Ended(3), trainer(0, ended=True))
    assert (found["kind"], found["exception"]) == ("exception", None)
    assert "exit code 3" in found["evidence"]


def test_an_attached_process_that_vanishes():
    found = judge(Ended(None), trainer(0))
    assert (found["kind"], found["rank"]) == ("lost", 0)


@pytest.mark.parametrize(
    ("before", "after", "peak", "limit", "certainty"),
    [
        ((0, 5), (1, 6), None, None, "certain"),
        ((None, 5), (None, 6), None, None, "likely"),
        ((0, 5), (0, 5), 99, 100, "possible"),
        ((0, 5), (0, 5), 50, 100, None),
        ((None, None), (None, None), None, None, None),
    ],
)
def test_how_sure_an_out_of_memory_kill_is(before, after, peak, limit, certainty):
    found = oom_kill(OomCounters(*before), OomCounters(*after), peak=peak, limit=limit)
    assert (found.certainty if found else None) == certainty


# Real processes.

STEPS = """
import os, signal, sys, time
import holter
def train(steps, before=lambda step: None):
    for step in range(steps):
        with holter.step():
            before(step)
            time.sleep(0.005)
"""


def script(tmp_path: Path, code: str) -> list[str]:
    path = tmp_path / "train.py"
    path.write_text(STEPS + code)
    return [sys.executable, str(path)]


def test_an_exception_with_its_text_and_step(start, tmp_path):
    code = "def fail(step):\n    if step == 20: raise ValueError('label 17 out of range')\ntrain(40, fail)"
    run = start(*script(tmp_path, code))
    assert run.wait() == 1
    failed = run.folder.manifest()["failure"]
    assert failed["kind"] == "exception"
    assert failed["exception"] == "ValueError: label 17 out of range"
    assert failed["step"] == 20
    assert failed["rank"] == 0
    (event,) = run.events("exception")
    assert "in fail" in event["detail"]["traceback"]
    assert len(run.trial.sql("select * from spans where phase = 'step'")) == 20


def test_sigkill_loses_no_finished_span_and_names_the_unfinished_one(start, tmp_path):
    code = (
        "def die(step):\n"
        "    if step == 30:\n"
        "        holter.annotation_begin('augment')\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "train(40, die)"
    )
    run = start(*script(tmp_path, code))
    assert run.wait() == 137
    failed = run.folder.manifest()["failure"]
    assert (failed["kind"], failed["signal"], failed["rank"]) == ("signal", 9, 0)
    assert failed["step"] == 30
    assert run.folder.manifest()["signal"] == 9
    assert len(run.trial.sql("select * from spans where phase = 'step'")) == 30
    (event,) = [e for e in run.events("exit") if e["detail"].get("role") == "trainer"]
    assert [span["name"] for span in event["detail"]["open"] if span["phase"] == "annotation"] == ["augment"]


def test_a_rank_that_vanishes_while_others_live_is_told_at_once(start, tmp_path):
    told = tmp_path / "told"
    code = (
        "def die(step):\n"
        "    if step == 100 and os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\n"
        f"while not os.path.exists({str(told)!r}): train(200, die)"
    )
    train = " ".join(script(tmp_path, code))
    run = start(
        "sh", "-c", f"RANK=0 WORLD_SIZE=2 {train} & RANK=1 WORLD_SIZE=2 {train}; code=$?; wait; exit $code"
    )
    until(lambda: run.events("lost"))
    told.touch()
    assert run.wait() == 137
    (lost,) = run.events("lost")
    assert lost["rank"] == 1
    assert lost["detail"]["living"] == [0]
    assert lost["detail"]["step"] == 100
    failed = run.folder.manifest()["failure"]
    assert (failed["kind"], failed["rank"]) == ("lost", 1)
    steps = run.trial.sql(
        "select rank, count(*) n from spans where phase = 'step' group by rank order by rank"
    )
    survivor, victim = steps["n"].tolist()
    assert (survivor % 200, victim) == (0, 100)
    assert survivor > 0


@pytest.fixture
def small_memory():
    """A real control group with little memory."""
    group = MEMORY / f"holter-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(300 << 20))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield group
    until(lambda: not (group / "cgroup.procs").read_text().strip())
    time.sleep(0.1)
    group.rmdir()


def test_a_real_out_of_memory_kill_is_certain(start, tmp_path, small_memory):
    code = "kept = []\ntrain(100000, lambda step: kept.append(b'x' * (4 << 20)))"

    def enter():
        (small_memory / "cgroup.procs").write_text(str(os.getpid()))

    run = start(*script(tmp_path, code), preexec_fn=enter)
    assert run.wait() == 137
    failed = run.folder.manifest()["failure"]
    assert (failed["kind"], failed["certainty"], failed["rank"]) == ("oom", "certain", 0)
    assert failed["step"] > 10
    assert run.folder.node("node")["memory_limit_bytes"] == 300 << 20
    assert [event["rank"] for event in run.events("oom")] == [0]
