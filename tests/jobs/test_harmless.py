"""Recording changes no result and no environment of a training, and nothing happens when it is off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.jobs.starting import TRAININGS, Jobs, environment

PLAIN = str(TRAININGS / "plain.py")


@pytest.mark.capability("PyTorch", "identical")
@pytest.mark.parametrize("workers", ["0", "2"])
def test_results_are_bit_identical(jobs: Jobs, workers: str) -> None:
    words = [PLAIN, "--steps", "50", "--workers", workers]
    alone = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=True, env=environment(), timeout=300
    )
    recorded = jobs.run(sys.executable, *words)
    assert recorded.describe()["steps"]["count"] == 50
    assert recorded.stdout == alone.stdout


def test_training_in_another_environment_than_holter(jobs: Jobs, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(other)], check=True)
    python = str(other / "bin" / "python")
    # torch is borrowed through a path file; holter is not there, nor can it be imported.
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    (Path(site) / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    missing = subprocess.run(
        [python, "-c", "import torch, holter"], capture_output=True, text=True, env=bare, check=False
    )
    assert "No module named 'holter'" in missing.stderr

    script = tmp_path / "train.sh"
    script.write_text(f'#!/bin/bash\necho "$PYTHONPATH"\nexec "{python}" "{PLAIN}" --steps 30\n')
    script.chmod(0o755)
    done = jobs.run(str(script))
    assert done.code == 0, done.stderr
    told = done.describe()
    assert told["steps"]["count"] == 30
    assert not told["cost"]["faults"]


def test_switched_off_nothing_is_loaded(jobs: Jobs) -> None:
    program = "import sys, json, torch; print(json.dumps([m for m in sys.modules if m.startswith('holter')]))"
    done = jobs.run(sys.executable, "-c", program, env={"HOLTER_DISABLE": "1"})
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_a_sitecustomize_of_the_users_own_still_runs(jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.theirs = 42\n")
    theirs = os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]])
    done = jobs.run(sys.executable, "-c", "print(theirs)", env={"PYTHONPATH": theirs})
    assert done.stdout == "42\n"
