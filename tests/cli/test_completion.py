"""`holter completion`: bash itself completes what is typed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def script(holter, tmp_path: Path) -> Path:
    path = tmp_path / "completion.sh"
    path.write_text(holter("completion", "bash").out)
    return path


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("holter pro", ["profile"]),
        ("holter profile --st", ["--stacks", "--start-time", "--steps", "--store"]),
        ("holter rules r", ["run"]),
        ("holter rules run --base", ["--baseline"]),
        ("holter describe res", ["resnet-1", "resnet-2"]),
        ("holter check lat", ["latest"]),
    ],
)
def test_bash_completes(script: Path, tmp_path: Path, typed: str, found: list[str]) -> None:
    for name in ("resnet-1", "resnet-2", "other"):
        (tmp_path / "jobs" / name).mkdir(parents=True)
    words = typed.split()
    line = (
        f"source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; "
        f"COMP_LINE='{typed}'; COMP_POINT={len(typed)}; "
        f'_shtab_holter holter {words[-1]} {words[-2]}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    env = {**os.environ, "HOLTER_STORE": str(tmp_path / "jobs")}
    done = subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == found, done.stderr


def test_each_shell_reads_its_script(holter, tmp_path: Path) -> None:
    for shell in ("bash", "zsh", "tcsh"):
        path = tmp_path / shell
        path.write_text(holter("completion", shell).out)
        if shutil.which(shell):
            subprocess.run([shell, "-n", str(path)], check=True)


def test_an_unknown_shell_is_refused(holter) -> None:
    holter("completion", "bsh").refused(64, "did you mean 'bash'", "zsh")
