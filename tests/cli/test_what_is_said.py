"""What the commands say of a job is so, and a command that they print works where it is pasted."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import SOURCE, command
from tests.cli.test_run import PYTHON, TURNS_NAN

from holter.dashboard.listing import mood


def test_a_command_that_fails_before_its_first_step_is_not_said_to_use_no_torch():
    done = command("run", "--", PYTHON, "-c", f"raise KeyError({'no such column ' * 100!r})")
    assert done.returncode == 1
    said = done.stderr[done.stderr.rindex("KeyError") :]
    assert "it ended before a first step" in said
    assert "PyTorch" not in said
    assert len(said) < 500


def test_a_job_whose_numbers_are_lost_is_not_listed_as_a_good_one():
    Path("train.py").write_text(TURNS_NAN)
    command("run", "--job", "sick", "--", PYTHON, "train.py")
    command("run", "--job", "well", "--", PYTHON, "-c", "pass")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color"}
    with os.fdopen(theirs, "w") as terminal:
        subprocess.run([sys.executable, "-m", "holter", "jobs"], env=environment, stdout=terminal, check=True)
    listed = os.read(ours, 10_000).decode().splitlines()
    os.close(ours)
    assert "\x1b[33mCompleted" in next(line for line in listed if "sick" in line)
    assert "turned NaN" in next(line for line in listed if "sick" in line)
    assert "\x1b[32mCompleted" in next(line for line in listed if "well" in line)
    jobs = {job["name"]: job for job in json.loads(command("jobs", "--json").stdout)["jobs"]}
    assert (mood(jobs["sick"]), mood(jobs["well"])) == ("sick", "")


def test_the_command_that_an_import_prints_works_where_it_is_pasted():
    event = {"ph": "X", "name": "work", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1.0, "dur": 5.0}
    Path("trace.json").write_text(json.dumps({"traceEvents": [event]}))
    Path("mine").mkdir()
    for store in ("my store", str(Path("mine").resolve())):
        done = command("import", "trace.json", "--store", store)
        assert done.returncode == 0, done.stderr
        words = shlex.split(done.stdout.splitlines()[-1].partition("holter ")[2])
        assert words[0] == "diagnose"
        assert command(*words).returncode == 0, words
    done = command("import", "../trace.json", "--store", ".", cwd="mine")
    words = shlex.split(done.stdout.splitlines()[-1].partition("holter ")[2])
    assert command(*words, cwd="mine").returncode == 0, words
