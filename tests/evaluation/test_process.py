"""`python -m holter.evaluation`, as a process beside a job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from tests.evaluation.jobs import begin, end, finished, pieces, write
from tests.generated.story import story

from holter.evaluation import choose, documents

RULES = documents(choose(["DataloaderBottleneck", "OverallSystemUsage"]))


@pytest.fixture(scope="module")
def tale():
    return story("before", ranks=1, cores=1, steps=100, samples=400)


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "holter.evaluation", *map(str, words)], stderr=subprocess.PIPE, text=True
    )


def wait_for(folder, what, seconds=120.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if what(folder.evaluations()):
            return
        time.sleep(0.1)
    raise AssertionError(f"not seen within {seconds} s: {folder.evaluations()}")


def test_it_ends_with_the_job_and_says_what_was_found(tale, tmp_path):
    folder = finished(tale, tmp_path, RULES)
    process = start(folder.url)
    assert process.communicate(timeout=120)[1] == ""
    assert process.returncode == 3
    assert {r["name"]: r["status"] for r in folder.evaluations()["rules"]} == {
        "DataloaderBottleneck": "IssuesFound",
        "OverallSystemUsage": "NoIssuesFound",
    }


def test_sigterm_judges_what_is_there(tale, tmp_path):
    folder = begin(tale, tmp_path, RULES)
    write(folder, pieces(tale, 2)[0])
    process = start(tmp_path, folder.name)
    wait_for(folder, lambda found: bool(found.get("rules")))
    assert os.getpriority(os.PRIO_PROCESS, process.pid) > os.getpriority(os.PRIO_PROCESS, 0)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=120)[1] == "", "the job goes on and on"
    assert {r["status"] for r in folder.evaluations()["rules"]} <= {"Stopped", "IssuesFound"}


def test_it_sees_the_end_of_a_running_job(tale, tmp_path):
    folder = begin(tale, tmp_path, RULES)
    first, second = pieces(tale, 2)
    write(folder, first)
    process = start(folder.url)
    wait_for(folder, lambda found: bool(found.get("rules")))
    write(folder, second)
    end(folder, tale)
    process.communicate(timeout=120)
    assert process.returncode == 3
    assert folder.evaluations()["progress"]["finished"] is True


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [((), 64, "usage"), (("--help",), 64, "usage"), (("nowhere/at-all",), 4, "no job 'at-all'")],
)
def test_wrong_words(words, code, says, tmp_path):
    process = start(*words)
    assert says in process.communicate(timeout=120)[1]
    assert process.returncode == code


def test_an_unknown_rule_in_a_manifest_is_said(tale, tmp_path):
    folder = finished(tale, tmp_path, [{"name": "StepOutlyer", "parameters": {}}])
    process = start(folder.url)
    assert "did you mean StepOutlier" in process.communicate(timeout=120)[1]
    assert process.returncode == 64
