"""Tracebacks and warnings of a training contain no frame and no file of holter."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.jobs.starting import TRAININGS, Jobs, environment

SCRIPT = str(TRAININGS / "raises.py")


# Torch's own frames differ for as long as its hooks find the models, in the first three steps.
@pytest.mark.parametrize(
    ("where", "workers", "calls", "kind"),
    [
        ("dataset", 0, 20, "raise"),
        ("dataset", 2, 20, "raise"),
        ("collate", 0, 8, "raise"),
        ("forward", 0, 8, "raise"),
        ("hook", 0, 8, "raise"),
        ("optimizer", 0, 8, "raise"),
        ("collate", 2, 8, "warn"),
        ("forward", 0, 8, "warn"),
        ("empty", 0, 0, "warn"),
    ],
)
def test_what_is_said_is_the_same(jobs: Jobs, where: str, workers: int, calls: int, kind: str) -> None:
    words = [sys.executable, "-u", SCRIPT, where, str(workers), str(calls), kind]
    env = {**environment(), "OMP_NUM_THREADS": "1"}
    alone = subprocess.run(words, capture_output=True, text=True, env=env, timeout=300, check=False)
    assert ("Traceback" in alone.stdout) == (kind == "raise" or where == "empty")
    done = jobs.run(*words, env={"OMP_NUM_THREADS": "1"})
    assert done.code == alone.returncode
    assert done.stdout == alone.stdout
    assert _any_order(_before_the_card(done.stderr)) == _any_order(alone.stderr)
    if alone.returncode:
        assert "recorder" not in str(done.describe()["job"]["failure"])


def _any_order(text: str) -> str:
    """Leave out the line at which torch takes a batch: it depends on which worker answers first."""
    return re.sub(r"line \d+, in _next_data", "in _next_data", text)


def _before_the_card(text: str) -> str:
    """Leave out what holter says: two lines at the start, and all from its card or its last lines on."""
    lines = text.splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if "watch it while it runs" in line) + 1
    last = next(
        i for i, line in enumerate(lines) if i >= first and line.startswith(("── holter", "holter: "))
    )
    return "".join(lines[first:last])
