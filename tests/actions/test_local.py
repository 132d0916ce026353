"""Actions that need no network: stop, run a command, ask the agents for something, say it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from holter.actions import ActionFailed, BadAction, Secrets
from holter.actions.dump_stacks import DumpStacks
from holter.actions.log import Log
from holter.actions.run_command import RunCommand
from holter.actions.start_profiling import StartProfiling
from holter.actions.stop_training import StopTraining
from holter.actions.tag import Tag
from holter.store.job import create

NONE = Secrets({})


def test_stop_orders_it_and_names_the_rule(occasion):
    occasion.folder.order(interval_ms=100)
    assert StopTraining(grace_s=7).act(occasion, NONE) == "told job my-job to stop"
    assert occasion.folder.control() == {
        "interval_ms": 100,
        "stop": {
            "grace_s": 7.0,
            "by": {"rule": "LossSpike", "step": 40, "reason": "Stopped by rule LossSpike at step 40"},
        },
    }
    assert "already" in StopTraining().act(occasion, NONE)


def test_a_job_that_has_ended_cannot_be_stopped(occasion):
    occasion.folder.update(end=time.time_ns(), status="Completed")
    with pytest.raises(ActionFailed, match="has ended"):
        StopTraining().act(occasion, NONE)
    assert occasion.folder.control() == {}


def test_a_prefix_must_name_exactly_one_running_job(occasion, tmp_path):
    def job(name, **more):
        made = create(str(tmp_path / "store"), name, command=["x"], interval_ms=500, rules=[], now_ns=1)
        made.update(**more)
        return made

    job("exp-done", status="Completed", end=2)
    with pytest.raises(ActionFailed, match="not exactly one running job begins with 'exp', but none"):
        StopTraining(job_prefix="exp").act(occasion, NONE)
    other = job("exp-1")
    assert StopTraining(job_prefix="exp").act(occasion, NONE) == "told job exp-1 to stop"
    assert other.control()["stop"]["by"]["job"] == "my-job"
    job("exp-2")
    with pytest.raises(ActionFailed, match="exp-1, exp-2"):
        StopTraining(job_prefix="exp").act(occasion, NONE)
    assert occasion.folder.control() == {}


SCRIPT = "import json, sys; found = json.load(sys.stdin); open(sys.argv[1], 'w').write(found['summary'])"


def test_a_command_gets_the_finding(occasion, tmp_path):
    out = tmp_path / "out; touch hacked"
    command = RunCommand(argv=(sys.executable, "-c", SCRIPT, str(out)))
    assert command.act(occasion, NONE) == "exit code 0"
    assert "loss rose" in out.read_text()
    assert not Path("hacked").exists()


def test_a_command_that_fails_says_its_last_line(occasion):
    command = RunCommand(argv=("sh", "-c", "echo first >&2; echo no pager >&2; exit 7"))
    with pytest.raises(ActionFailed, match=r"^exit code 7: no pager$"):
        command.act(occasion, NONE)


def test_a_command_that_reads_nothing_is_fine(occasion):
    big = replace(occasion, issue={**occasion.issue, "evidence": {"x": "y" * 300_000}})
    assert RunCommand(argv=("true",)).act(big, NONE) == "exit code 0"


def test_a_command_that_does_not_end_is_killed_with_what_it_started(occasion):
    long = f"600.{os.getpid()}"
    command = RunCommand(argv=("sh", "-c", f"sleep {long} & wait"), timeout_s=0.5)
    with pytest.raises(ActionFailed, match=r"killed after 0\.5 s"):
        command.act(occasion, NONE)
    deadline = time.monotonic() + 60
    while subprocess.run(["pgrep", "-f", f"sleep {long}"], stdout=subprocess.DEVNULL).returncode == 0:
        assert time.monotonic() < deadline, "what it started still runs"
        time.sleep(0.05)


def test_a_program_that_there_is_not_is_refused():
    with pytest.raises(BadAction, match="'no-such-program-3'"):
        RunCommand(argv=("no-such-program-3",)).check(NONE)
    with pytest.raises(BadAction, match="cannot be split"):
        RunCommand(argv="echo 'x")


def test_stacks_are_asked_for_where_somebody_dumps_them(occasion):
    DumpStacks().act(occasion, NONE)
    assert occasion.folder.control()["stacks"]["id"] == occasion.id
    occasion.folder.write_node("node", {})
    with pytest.raises(ActionFailed, match="refused: no agent"):
        DumpStacks().act(occasion, NONE)


def test_profiling_is_refused_where_nobody_obeys(occasion):
    with pytest.raises(
        ActionFailed, match=r"no agent of this job \(node\) starts profiling windows; they are older"
    ):
        StartProfiling(steps=3).act(occasion, NONE)
    request = occasion.folder.control()["profile"]
    assert (request["steps"], request["rank"], request["by"]) == (3, 1, {"rule": "LossSpike"})
    occasion.folder.write_node("node", {"obeys": ["profile"]})
    assert StartProfiling(rank=0).act(occasion, NONE) == "asked for 5 steps of rank 0"
    occasion.folder.write_node("older", {"obeys": ["stop"]})
    assert StartProfiling(rank=0).act(occasion, NONE).endswith("; not on older, whose agent is too old")
    assert occasion.folder.control()["profile"]["rank"] == 0
    occasion.folder.update(end=time.time_ns())
    with pytest.raises(ActionFailed, match="the job has ended"):
        StartProfiling().act(occasion, NONE)


def test_the_log(occasion, tmp_path, caplog):
    with caplog.at_level(logging.ERROR, logger="holter.issues"):
        Log(level="error", file=str(tmp_path / "issues.jsonl")).act(occasion, NONE)
        Log(level="info").act(occasion, NONE)
    (record,) = caplog.records
    assert record.getMessage().startswith("holter: critical: LossSpike in job my-job: loss rose")
    (line,) = (tmp_path / "issues.jsonl").read_text().splitlines()
    assert json.loads(line)["rule"] == "LossSpike"
    with pytest.raises(BadAction, match="there is no folder"):
        Log(file=str(tmp_path / "no" / "x")).check(NONE)


def test_tags_are_added(occasion):
    Tag(key="sick").act(occasion, NONE)
    Tag(key="kind", value="loss").act(occasion, NONE)
    assert occasion.folder.manifest()["tags"] == {"sick": "LossSpike", "kind": "loss"}


def test_a_secret_may_lie_in_a_file(tmp_path):
    (tmp_path / "secret").write_text("hidden-value\n")
    secrets = Secrets({"KEY_FILE": str(tmp_path / "secret"), "GONE_FILE": str(tmp_path / "gone")})
    assert secrets.need("KEY", "x") == "hidden-value"
    assert secrets.hide("it is hidden-value") == "it is ***"
    with pytest.raises(BadAction, match=r"GONE_FILE: .* No such file"):
        secrets.need("GONE", "x")
