"""Run holter's commands like a user, in a temporary folder with its own store."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.generated.story import Story, story

from holter.cli import main
from holter.store.job import JobFolder, create
from holter.store.writer import Writer

SOURCE = Path(__file__).parents[2] / "src"
PUBLISHED = json.loads((SOURCE / "holter/views/description.schema.json").read_text())
PYTHON = sys.executable
TURNS_NAN = """
import holter
for step in range(60):
    with holter.step():
        holter.log(loss=float("nan") if step > 40 else 1.0)
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, with no setting of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("HOLTER_")] + ["NO_COLOR", "COLUMNS"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Answer:
    """What a command answered."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def refused(self, code: int, *parts: str) -> None:
        """Check that this is one clear line with these parts, and nothing on standard output."""
        assert self.code == code, self.err
        assert self.out == ""
        assert self.err.count("\n") == 1, f"not one line: {self.err}"
        assert self.err.startswith("holter")
        for part in parts:
            assert part in self.err


@pytest.fixture
def holter(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run one command line in this process."""

    def run(*words: str) -> Answer:
        capsys.readouterr()
        code = main(words)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


def command(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run one command line in a process of its own."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("HOLTER_")}
    given = {"capture_output": True, "text": True, "timeout": 300, "check": False, **more}
    env = {**surroundings, "PYTHONPATH": str(SOURCE), **given.pop("env", {})}
    return subprocess.run([sys.executable, "-m", "holter", *words], env=env, **given)


def described(name: str = "latest") -> dict[str, Any]:
    """Return what `holter describe --json` says of a job in this folder, asked in this process."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(["describe", name, "--json"]) == 0
    found: dict[str, Any] = json.loads(said.getvalue())
    return found


def job(
    name: str, store: str = "holter-jobs", *, status: str = "Completed", age_s: float = 60, **manifest: Any
) -> JobFolder:
    """Put a job into a store."""
    now = time.time_ns()
    start = now - int(age_s * 1e9)
    folder = create(store, name, command=["python", "train.py"], interval_ms=500, rules=[], now_ns=start)
    end = None if status in ("InProgress", "Stopping") else start + 10**10
    folder.update(status=status, end=end, **manifest)
    return folder


def told(name: str, store: str = "holter-jobs", **more: Any) -> tuple[JobFolder, Story]:
    """Put a generated story into a store."""
    made = story(name, **more)
    folder = create(
        store, name, command=["python", "train.py"], interval_ms=500, rules=[], now_ns=made.manifest["start"]
    )
    folder.update(
        **{key: value for key, value in made.manifest.items() if key not in ("name", "schema", "rules")}
    )
    for node, facts in made.nodes.items():
        folder.write_node(node, facts)
        writer = Writer(folder, node)
        for table in ("samples", "spans", "scalars", "events"):
            rows = getattr(made, table)
            writer.append(table, rows.where(rows["node"] == node).columns)
        writer.close()
    return folder, made
