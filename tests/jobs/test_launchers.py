"""Every launcher: ranks and steps are recorded, and the training keeps its output."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.jobs.starting import LAUNCH, TRAININGS, Jobs

PLAIN = str(TRAININGS / "plain.py")


@pytest.mark.parametrize(
    "words", [["--steps", "30"], ["--steps", "30", "--spawn"]], ids=["python", "multiprocessing spawn"]
)
def test_python(jobs: Jobs, words: list[str]) -> None:
    done = jobs.train("plain.py", *words)
    assert done.code == 0, done.stderr
    assert done.stdout.startswith("digest ")
    assert done.stdout.count("\n") == 1, "something of ours went to the command's standard output"
    told = done.describe()
    assert told["ranks"] == [0]
    assert told["steps"]["count"] == 30
    assert told["job"]["framework"]["name"] == "pytorch"
    assert sum(told["breakdown"].values()) == pytest.approx(100, abs=0.5)


def test_shell_script(jobs: Jobs, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(
        f'#!/bin/bash\nread word\necho "got $word"\n"{sys.executable}" "{PLAIN}" --steps 30\nexit 9\n'
    )
    script.chmod(0o755)
    done = jobs.run(str(script))
    assert done.code == 9
    assert done.stdout.splitlines()[0] == "got "
    assert done.describe()["steps"]["count"] == 30


@pytest.mark.slow
def test_torchrun(jobs: Jobs) -> None:
    done = jobs.run(*LAUNCH, str(TRAININGS / "ddp.py"), "--steps", "40")
    assert done.code == 0, done.stderr
    told = done.describe()
    assert told["ranks"] == [0, 1]
    assert told["steps"]["count"] == 40
    assert told["breakdown"]["communication"] > 0


@pytest.mark.slow
def test_accelerate(jobs: Jobs) -> None:
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1"]
    done = jobs.run(*launch, "--num_cpu_threads_per_process", "1", str(TRAININGS / "accelerated.py"))
    assert done.code == 0, done.stderr
    told = done.describe()
    assert told["ranks"] == [0]
    assert told["steps"]["count"] == 40


def test_a_command_that_does_not_train(jobs: Jobs) -> None:
    done = jobs.run(sys.executable, "-c", "import sys; print(sys.stdin.read()); sys.exit(7)")
    assert done.code == 7
    assert done.stdout == "\n"
    told = done.describe()
    assert not told["steps"] or not told["steps"].get("count")
    assert told["verdict"]["suspect"] == "inconclusive"
    assert told["verdict"]["missing"], "it must say what is missing"
