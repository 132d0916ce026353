"""Start commands under a real agent, and make machines of files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.agent.trees import MEMINFO, write

from holter.agent.collectors import Machine, Watched
from holter.agent.machine.cgroups import ControlGroup
from holter.store.job import JobFolder, find
from holter.store.trial import Trial

DRIVE = Path(__file__).with_name("drive.py")
SOURCE = Path(__file__).parents[2] / "src"


@dataclass
class Kept:
    """What an agent has written of the job `job`."""

    store: Path

    @property
    def outcome(self) -> dict:
        return json.loads(Path(f"{self.store}.json").read_text())

    @property
    def folder(self) -> JobFolder:
        return find(str(self.store), "job")

    @property
    def trial(self) -> Trial:
        return Trial(self.folder)

    def rows(self, table: str) -> int:
        """Return how many rows of a table are there, of a job that may hardly have begun."""
        try:
            return self.trial.table(table).rows
        except (OSError, LookupError):
            return 0

    def events(self, kind: str) -> list[dict]:
        if not self.rows("events"):
            return []
        rows = [row for row in self.trial.table("events").to_rows() if row["kind"] == kind]
        return [{**row, "detail": json.loads(row["detail"])} for row in rows]


class Run(Kept):
    """One command under an agent in a process of its own."""

    def __init__(self, store: Path, command: list[str], *, popen: dict, options: dict):
        super().__init__(store)
        words = [sys.executable, str(DRIVE), json.dumps({"store": str(store), **options}), *command]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), **popen.pop("env", {})}
        self.process = subprocess.Popen(words, env=environment, **popen)

    def wait(self, timeout: float = 180) -> int:
        return self.process.wait(timeout)


@pytest.fixture
def start(tmp_path):
    """Start a command under an agent; keyword arguments of `Popen`, and `options` for the agent."""
    runs = []

    def begin(*command: str, options: dict | None = None, **popen) -> Run:
        run = Run(tmp_path / f"store{len(runs)}", list(command), popen=popen, options=options or {})
        runs.append(run)
        return run

    yield begin
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()
        for pipe in (run.process.stdin, run.process.stdout, run.process.stderr):
            if pipe is not None:
                pipe.close()


def until(condition, timeout: float = 120.0):
    """Wait until something holds, and return it."""
    deadline = time.monotonic() + timeout
    while (looked := time.monotonic()) < deadline:
        if found := condition():
            return found
        # Who asks a store asks less often than who looks whether a file is there.
        time.sleep(max(0.02, 5 * (time.monotonic() - looked)))
    raise AssertionError("it did not come to pass in time")


@pytest.fixture
def machine(tmp_path):
    """A machine of files, with four cores of which the job may use two, and no control group."""
    (tmp_path / "sys").mkdir()
    proc = write(tmp_path / "proc", {"self/cgroup": "", "loadavg": "1.5 1 1 1/100 5\n", "meminfo": MEMINFO})
    return Machine(
        proc=proc,
        sys=tmp_path / "sys",
        shm=tmp_path / "no-shm",
        cores=frozenset({0, 2}),
        cgroup=ControlGroup((), (), unified=False),
        watched=Watched(),
        environment={},
    )
