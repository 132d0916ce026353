"""Processes of holter beside a training run no `sitecustomize` of the user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holter.rules.sandbox.executor import SandboxExecutor
from holter.schema.companions import own_command

SOURCE = Path(__file__).parents[2] / "src"
NOTE = """
import json, os
with open({file!r}, "a") as file:
    line = open("/proc/self/cmdline", "rb").read().decode().split("\\0")
    file.write(json.dumps([os.getpid(), line]) + "\\n")
"""
LONG = "import time; print('begins', flush=True); time.sleep(8)"


@pytest.fixture
def noted(tmp_path, monkeypatch):
    """Return a function that says which processes imported the user's `sitecustomize` or `usercustomize`."""
    file, folder = tmp_path / "noted", tmp_path / "user"
    folder.mkdir()
    for name in ("sitecustomize", "usercustomize"):
        (folder / f"{name}.py").write_text(NOTE.format(file=str(file)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(SOURCE)]))
    monkeypatch.chdir(folder)  # a script in the current folder is not imported either

    def read() -> list[list[str]]:
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line)[1] for line in lines]

    return read


def test_only_the_outermost_process_and_the_training_run_it(noted, tmp_path):
    words = ["run", "--store", str(tmp_path / "store"), "--job", "j", "--rule", "ProfilerReport", "--"]
    command = [sys.executable, "-m", "holter", *words, sys.executable, "-c", LONG]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    log = tmp_path / "store" / "j" / "evaluations.json"
    assert json.loads(log.read_text())["rules"], "the rules' process ran"
    found = [one for one in noted() if "holter" not in one and LONG not in one]
    assert not found
    assert any(LONG in one for one in noted()), "the training keeps its own"
    assert all(one[:3] == [sys.executable, "-m", "holter"] for one in noted() if "holter" in one)


def test_the_agent_of_a_notebook_does_not_run_it(noted, tmp_path):
    code = f"import holter; holter.start(job='j', store={str(tmp_path / 'store')!r}); holter.stop()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
    assert (tmp_path / "store" / "j" / "job.json").exists()
    assert noted()
    assert all(code in one for one in noted())


def test_the_sandbox_of_rules_does_not_run_it(noted):
    executor = SandboxExecutor()
    assert executor.submit(os.getpid).result(60) != os.getpid()
    executor.shutdown()
    assert not noted()


def test_holter_is_found_as_in_the_parent_although_another_lies_beside_it(noted, tmp_path, monkeypatch):
    (tmp_path / "user" / "holter.py").write_text("raise SystemExit('another holter')")
    command = own_command("holter", "--version")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "holter" in done.stdout
    assert not noted()
