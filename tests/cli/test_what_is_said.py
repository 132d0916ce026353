"""Statements about a job are true, and printed commands work when pasted."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import PYTHON, SOURCE, TURNS_NAN, command, described

from holter.dashboard.listing import mood


def test_a_command_that_fails_before_its_first_step_names_the_place():
    Path("train.py").write_text("import json\ndef main():\n    {}[f\"{'no such column ' * 100}\"]\nmain()\n")
    done = command("run", "--job", "early", "--", PYTHON, "train.py")
    assert done.returncode == 1
    assert described("early")["verdict"]["advice"] == [], "nothing about steps that it could not take"
    card = done.stderr[done.stderr.rindex("holter: the command failed before its first step: KeyError") :]
    assert card.splitlines()[0].endswith("in main (train.py:3)"), card
    assert "PyTorch" not in card
    assert card.count("no such column") < 10, "the text is cut and printed once"
    assert done.stderr.count("holter: the command failed") == 1


def test_an_error_in_a_library_names_the_place_in_the_users_own_code():
    Path("train.py").write_text("import json\njson.loads('{')\n")
    card = command("run", "--", PYTHON, "train.py").stderr
    assert "its first step: json.decoder.JSONDecodeError: Expecting property name" in card
    assert "in <module> (train.py:2)" in card


def test_a_framework_that_is_not_recorded_is_named_with_the_way_out():
    Path("lightfm.py").write_text("__version__ = '1.17'\n")
    Path("train.py").write_text("import lightfm\n")
    card = command("run", "--", PYTHON, "train.py").stderr
    found = "LightFM 1.17 was imported"
    assert f"{found}; holter does not record it; mark steps with holter.step()" in card
    assert "PyTorch" not in card
    marked = "import lightfm, holter\nfor _ in range(5):\n    with holter.step():\n        pass\n"
    Path("train.py").write_text(marked)
    card = command("run", "--job", "marked", "--", PYTHON, "train.py").stderr
    assert "LightFM" not in card
    assert described("marked")["steps"]["count"] == 5


def test_several_frameworks_that_are_not_recorded_are_named():
    Path("lightfm.py").write_text("__version__ = '1.17'\n")
    Path("keras.py").write_text("__version__ = '3.0'\n")
    Path("train.py").write_text("import lightfm\n")
    card = command("run", "--", PYTHON, "train.py").stderr
    assert "LightFM 1.17 was imported; holter does not record it; mark steps with holter.step()" in card
    for name in ("fasttext", "implicit"):
        Path(f"{name}.py").write_text("")
    Path("train.py").write_text("import implicit\nimport fasttext\n")
    card = command("run", "--", PYTHON, "train.py").stderr
    assert "fastText and implicit were imported; holter does not record them; mark steps" in card
    Path("train.py").write_text("import keras, lightfm\n")
    card = command("run", "--", PYTHON, "train.py").stderr
    assert "Keras 3.0 and LightFM 1.17 were imported; holter does not record them; mark steps" in card


def test_an_adapter_that_cannot_attach_is_named_with_its_error():
    Path("xgboost").mkdir()
    Path("xgboost/__init__.py").write_text("__version__ = '9.0'\nfrom . import core\n")
    Path("xgboost/core.py").write_text("class DMatrix:\n    def __init__(self):\n        pass\n")
    Path("train.py").write_text("import xgboost\nxgboost.core.DMatrix()\n")
    done = command("run", "--job", "newer", "--", PYTHON, "train.py")
    assert done.returncode == 0
    why = "holter's adapter of xgboost failed: KeyError: 'xgboost.callback'"
    assert f"no training step was recorded: {why}" in done.stderr
    assert "mark" not in done.stderr
    told = described("newer")
    assert told["verdict"]["sentence"].endswith(f"The reason: {why}.")
    assert told["verdict"]["advice"][0]["text"].startswith("Use a version of xgboost that holter is tested")
    assert [one["where"] for one in told["cost"]["faults"]] == ["adapter xgboost"]


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
