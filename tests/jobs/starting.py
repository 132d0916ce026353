"""Run real trainings with `holter run` and read the results."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema

from holter.cli import main as holter_main

ROOT = Path(__file__).parents[2]
TRAININGS = Path(__file__).parent / "trainings"
PUBLISHED = ROOT / "src" / "holter" / "views" / "description.schema.json"
LIMIT_S = 300
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@dataclass(frozen=True)
class Finished:
    """A command that ended, and the store it wrote to."""

    code: int
    stdout: str
    stderr: str
    store: Path
    job: str

    def describe(self) -> dict[str, Any]:
        """Return what `holter describe --json` says of the job; it keeps to its published schema."""
        told = json.loads(here("describe", self.job, "--json", "--store", str(self.store)).stdout)
        jsonschema.validate(told, json.loads(PUBLISHED.read_text()))
        return told

    def table(self, name: str) -> Any:
        """Read one table of the job."""
        from holter.job import open as open_job

        return getattr(open_job(str(self.store / self.job)), name).table


def environment(**more: str) -> dict[str, str]:
    """Return the surroundings of a command in which holter is found and nothing of it is switched on yet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLTER_")}
    sources = os.pathsep.join(filter(None, [str(ROOT / "src"), kept.get("PYTHONPATH")]))
    programs = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return {**kept, "PATH": programs, "PYTHONPATH": sources, "OMP_NUM_THREADS": "1", **more}


def holter(*words: str, check: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run one holter command to its end."""
    command = [sys.executable, "-m", "holter", *words]
    settings = {
        "env": environment(),
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        **more,
    }
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, **settings) as process:
        try:
            stdout, stderr = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            # Asked to end, holter ends its command too; killed, it would leave that behind.
            process.terminate()
            stdout, stderr = process.communicate(timeout=LIMIT_S)
            raise AssertionError(f"{command} took more than {LIMIT_S} s\n{stdout}{stderr}") from None
    done = subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def here(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one holter command in this process: it says the same, and no process is started for it."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as said,
        contextlib.redirect_stderr(io.StringIO()) as told,
    ):
        code = holter_main(list(words))
    done = subprocess.CompletedProcess(list(words), code, said.getvalue(), told.getvalue())
    assert not check or code == 0, done.stdout + done.stderr
    return done


def wait_for(found: Callable[[], object], limit_s: float = 240.0) -> None:
    """Wait until something is there."""
    deadline = time.monotonic() + limit_s
    while not found():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)


@dataclass
class Jobs:
    """Starts jobs in a store of its own."""

    store: Path
    started: list[str] = field(default_factory=list)

    def run(
        self, *command: str, options: tuple[str, ...] = (), env: dict[str, str] | None = None
    ) -> Finished:
        """Run a command as a job, to its end."""
        name = f"job-{len(self.started)}"
        self.started.append(name)
        words = ["run", "--store", str(self.store), "--job", name, *options, "--", *command]
        done = holter(*words, check=False, env=environment(**(env or {})))
        return Finished(done.returncode, done.stdout, done.stderr, self.store, name)

    def train(self, script: str, *words: str, **more: Any) -> Finished:
        """Run one of the trainings as a job, with this Python."""
        return self.run(sys.executable, str(TRAININGS / script), *words, **more)
