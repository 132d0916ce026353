"""Rules from outside of holter: each runs in a sandbox process, with the same findings."""

from __future__ import annotations

import importlib.util
import os
import sys
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.evaluation import sandboxed_rules
from tests.evaluation.jobs import begin, end, finished, pieces, write
from tests.evaluation.sandboxed_rules import Bad, Good, Slow
from tests.generated.story import story

from holter.evaluation import evaluate
from holter.rules import Job, Rule, Window, find
from holter.rules.sandbox.executor import Died, ProcessLimits, SandboxExecutor
from holter.rules.sandbox.sandboxed_rule import runs_in_sandbox
from holter.store.trial import Trial

LIMITS = ProcessLimits(hard_s=6.0, memory_bytes=128 * 2**20)


@pytest.fixture(scope="module")
def tale():
    return story("after", ranks=1, cores=1, steps=60, samples=120)


@pytest.fixture(scope="module")
def job(tale, tmp_path_factory):
    return finished(tale, tmp_path_factory.mktemp("store"))


def by_name(result):
    return {rule["name"]: rule for rule in result.rules}


def test_who_is_a_stranger():
    class Local(Rule):
        pass

    assert runs_in_sandbox(Good())
    assert not runs_in_sandbox(find("StepOutlier")())
    assert not runs_in_sandbox(Local())  # nobody else can find it again


@pytest.fixture(scope="module")
def whole(job):
    return by_name(evaluate(job, [Good(), "OverallSystemUsage"], record=False))


def test_a_stranger_judges_the_same_data_elsewhere(job, tale, whole):
    good = whole["Good"]
    steps = Trial(job).table("spans", where="phase = 'step'").rows
    assert good["status"] == "IssuesFound", good
    assert good["details"]["steps"] == steps == 60
    assert good["details"]["readings"] == tale.samples.where(tale.samples["metric"] == "gpu.util").rows
    assert good["details"]["last"] == good["coverage"]["last_step"]
    assert good["details"]["pid"] != os.getpid()
    assert good["coverage"]["last_step"] - good["coverage"]["first_step"] == 59
    assert whole["OverallSystemUsage"]["status"] == "NoIssuesFound"


def test_live_and_after_a_crash_it_finds_the_same(tale, tmp_path, whole):
    folder = begin(tale, tmp_path)
    parts = pieces(tale, 6)

    class Crash(Exception):
        pass

    def wait(_seconds):
        if len(parts) == 3:
            raise Crash
        write(folder, parts.pop(0))

    with pytest.raises(Crash):
        evaluate(folder, [Good()], live=True, wait=wait)
    for part in parts:
        write(folder, part)
    end(folder, tale)
    good = by_name(evaluate(folder, [Good()]))["Good"]
    details = {**good["details"], "pid": whole["Good"]["details"]["pid"]}
    assert details == whole["Good"]["details"]
    assert good["issues"] == whole["Good"]["issues"]
    assert good["evaluations"] == whole["Good"]["evaluations"]


FAULTS = {
    "loop": "stopped: it took longer than 6 s",
    "os_exit": "stopped: its process ended with exit code 7",
    "kill": "stopped: its process was ended by SIGKILL",
    "eat": "MemoryError",
    "bloat": "stopped: its state is 17 MiB; 16 MiB are allowed",
    "exit": "SystemExit: 3",
    "raise": "ZeroDivisionError: at look 3",
}


@pytest.fixture(scope="module")
def together(job):
    bad = [Bad(how=how) for how in FAULTS]
    result = evaluate(job, [*bad, "OverallSystemUsage"], record=False, limits=LIMITS)
    rules = {rule["parameters"].get("how"): rule for rule in result.rules}
    return rules, result.exit_code


@pytest.mark.parametrize("how", FAULTS)
def test_what_it_does_is_its_own_fault(together, how):
    bad = together[0][how]
    assert bad["status"] == "Error"
    assert FAULTS[how] in bad["error"]
    assert bad["status_details"].startswith("Error: ")
    assert bad["evaluations"] == (5 if how in ("exit", "raise") else 3)


def test_nothing_else_notices(together, whole):
    rules, code = together
    assert rules[None]["status"] == "NoIssuesFound"
    assert rules[None]["details"] == whole["OverallSystemUsage"]["details"]
    assert code == 1


def test_a_slow_one_is_asked_less_often_and_says_so(tmp_path):
    job = finished(story("after", ranks=1, cores=1, steps=240, samples=480), tmp_path)
    asked = by_name(evaluate(job, [Slow()], record=False, limits=replace(LIMITS, soft_s=60.0)))["Slow"]
    rarely = by_name(evaluate(job, [Slow()], record=False, limits=replace(LIMITS, soft_s=0.01)))["Slow"]
    assert asked["coverage"]["every_nth"] == 1
    assert rarely["coverage"]["every_nth"] == 32
    assert rarely["evaluations"] < asked["evaluations"]
    assert rarely["status"] == "NoIssuesFound"


def test_another_executor_may_take_its_place(job):
    """A cluster's executor needs no more than `submit` and `shutdown`."""
    made = []

    class Elsewhere(Executor):
        def __init__(self, limits):
            self.own = SandboxExecutor(limits)
            made.append(self)

        def submit(self, fn, /, *args, **kwargs):
            return self.own.submit(fn, *args, **kwargs)

        def shutdown(self, wait=True, *, cancel_futures=False):
            self.own.shutdown(wait, cancel_futures=cancel_futures)

    rules = by_name(evaluate(job, [Good()], record=False, executor=Elsewhere))
    assert rules["Good"]["status"] == "IssuesFound"
    (one,) = made
    assert one.own._process.poll() is not None  # nothing is left running


def test_a_rule_from_a_file_is_found_again_by_its_path(job, tmp_path):
    path = tmp_path / "their_rule.py"
    path.write_text(Path(sandboxed_rules.__file__).read_text())
    spec = importlib.util.spec_from_file_location("their_rule_of_a_path", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        assert runs_in_sandbox(module.Good())
        rules = by_name(evaluate(job, [module.Good()], record=False))
    finally:
        del sys.modules[spec.name]
    assert rules["Good"]["status"] == "IssuesFound", rules["Good"]["error"]
    assert rules["Good"]["details"]["pid"] != os.getpid()


def test_own_process():
    with SandboxExecutor(LIMITS) as own:
        assert own.submit(divmod, 7, 2).result(120) == (3, 1)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            own.submit(divmod, 7, 0).result(120)
        assert own.submit(os.getpid).result(120) != os.getpid()
        assert own.submit(os.getpid).result(120) == own._process.pid
        with pytest.raises(Died, match="exit code 5"):
            own.submit(os._exit, 5).result(120)


def test_a_job_with_nothing_to_judge(job):
    window = Window.of(Good().lookback, job=Job(start=0, ended=True))
    assert list(Good().evaluate(window)) == []
