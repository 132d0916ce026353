"""`uvx holter run -- python train.py` runs the Python of the user, not that of the tool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OURS = str(Path(sys.prefix) / "bin")


@pytest.mark.parametrize(
    ("variables", "own"),
    [
        ({"UV": "/opt/uv", "VIRTUAL_ENV": "/home/me/project"}, False),
        ({"UV": "/opt/uv", "VIRTUAL_ENV": ""}, False),
        ({"UV": "/opt/uv", "VIRTUAL_ENV": sys.prefix}, True),
        ({"VIRTUAL_ENV": "/home/me/project"}, True),
    ],
    ids=["uvx beside a project", "uvx", "uv run", "not uv"],
)
def test_the_first_python_outside_of_the_tool_trains(
    variables: dict[str, str], own: bool, tmp_path: Path
) -> None:
    training = tmp_path / "bin" / "python"
    training.parent.mkdir()
    training.write_text("#!/bin/sh\necho the python of the training\n")
    training.chmod(0o755)
    environment = {name: text for name, text in os.environ.items() if name not in ("UV", "VIRTUAL_ENV")}
    path = os.pathsep.join([OURS, str(training.parent), environment["PATH"]])
    words = [sys.executable, "-m", "holter", "run", "--no-rules", "--store", str(tmp_path / "jobs")]
    done = subprocess.run(
        [*words, "--", "python", "-c", "print('the python of holter')"],
        env={**environment, **variables, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ("the python of holter\n" if own else "the python of the training\n")
