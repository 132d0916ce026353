"""Run a small real training in a process of its own under the recorder, and read its spool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tests.recorder.frameworks.warm import Warm

from holter.agent.drain.segments import RECORD, unfold
from holter.recorder.spool import hotpath
from holter.schema.phases import Mode, Phase
from holter.schema.record import ENV_COMPILE

BOOTSTRAP = Path(__file__).parents[3] / "src" / "holter" / "recorder" / "bootstrap"

PRELUDE = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

class Net(nn.Module):
    def __init__(self, features=8, classes=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.body(x))

def data(samples=32):
    generator = torch.Generator().manual_seed(7)
    return TensorDataset(torch.randn(samples, 8, generator=generator),
                         torch.randint(0, 2, (samples,), generator=generator))
"""


@dataclass(frozen=True)
class Span:
    """One record of the spool, its name looked up."""

    begin: int
    duration: int
    value: float
    step: int
    name: str
    mode: Mode
    phase: Phase
    thread: int

    @property
    def end(self) -> int:
        return self.begin + self.duration

    def inside(self, other: Span) -> bool:
        return other.begin <= self.begin and self.end <= other.end


@dataclass
class Process:
    """What one process wrote."""

    facts: dict[str, list] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)

    @property
    def identity(self) -> dict:
        return self.facts["process"][-1]

    def of(self, phase: Phase, name: str | None = None) -> list[Span]:
        return [s for s in self.spans if s.phase is phase and (name is None or s.name == name)]

    def per_step(self, phase: Phase, name: str | None = None) -> list[int]:
        """How many spans of this phase each step has."""
        count = Counter(s.step for s in self.of(phase, name))
        return [count[s.step] for s in self.of(Phase.STEP)]

    def scalars(self, name: str) -> list[float]:
        return [s.value for s in self.of(Phase.SCALAR, name)]


@dataclass
class Recording:
    """What all processes of one command wrote."""

    processes: list[Process]
    stdout: str
    stderr: str

    @property
    def trainers(self) -> list[Process]:
        found = [p for p in self.processes if p.identity["role"] == "trainer"]
        return sorted(found, key=lambda p: p.facts.get("rank", [{"rank": 0}])[-1]["rank"])

    @property
    def trainer(self) -> Process:
        (found,) = self.trainers
        return found

    @property
    def workers(self) -> list[Process]:
        return [p for p in self.processes if p.identity["role"] == "worker"]


def read_spool(folder: Path) -> list[Process]:
    """Read every process's files, byte by byte as the schema says."""
    processes = []
    for journal in sorted(folder.glob("*.journal")):
        process, names = Process(), {0: ""}
        for line in journal.read_text().splitlines():
            ((kind, fact),) = json.loads(line).items()
            process.facts.setdefault(kind, []).append(fact)
            if kind == "name":
                names[fact[0]] = fact[1]
        for segment in sorted(folder.glob(journal.stem + ".*.seg")):
            thread = int(segment.name.split(".")[1])
            records = unfold(np.fromfile(segment, RECORD))
            for begin, duration, value, step, name, mode, phase in records.tolist():
                if phase:
                    process.spans.append(
                        Span(begin, duration, value, step, names[name], Mode(mode), Phase(phase), thread)
                    )
        process.spans.sort(key=lambda s: (s.begin, -s.duration))
        processes.append(process)
    return processes


class Runner:
    """Runs scripts with and without the recorder."""

    def __init__(self, folder: Path, warm: Warm | None = None) -> None:
        self.folder = folder
        self.count = 0
        self.warm = warm
        """Where scripts get a process that has torch already; None: each starts as any Python."""

    def script(self, text: str) -> Path:
        path = self.folder / "train.py"
        path.write_text(PRELUDE + textwrap.dedent(text))
        return path

    def run(self, command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default", **env},
            capture_output=True,
            text=True,
            timeout=180,
        )

    def plain(self, text: str, *args: str) -> str:
        """Run without holter; return what the script printed."""
        self.script(text)
        return self.again(*args)

    def again(self, *args: str) -> str:
        """Run the last script without holter; return what it printed."""
        done = self.run([sys.executable, str(self.folder / "train.py"), *args], {"HOLTER_SPOOL": ""})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def __call__(
        self, text: str, *args: str, launcher: tuple[str, ...] = (), exit_code: int = 0, quiet: bool = True
    ) -> Recording:
        self.count += 1
        spool = self.folder / f"spool{self.count}"
        spool.mkdir()
        path = f"{BOOTSTRAP}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        surroundings = {"HOLTER_SPOOL": str(spool), "PYTHONPATH": path}
        words = [str(self.script(text)), *args]
        if self.warm is None or launcher:
            done = self.run([sys.executable, *launcher, *words], surroundings)
        else:
            env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default", **surroundings}
            done = self.warm.run(words, folder=self.folder, env=env)
        assert done.returncode == exit_code, done.stderr
        recording = Recording(read_spool(spool), done.stdout, done.stderr)
        if quiet:
            faults = [f for p in recording.processes for f in p.facts.get("fault", [])]
            assert not faults
        assert_nested(recording)
        return recording


def assert_nested(recording: Recording) -> None:
    """Spans of a main thread nest like brackets; a STEP may cut nothing but what lies wholly around it."""
    for process in recording.processes:
        open_spans: list[Span] = []
        for span in process.spans:
            if span.thread or span.phase in (Phase.STEP, Phase.GC, Phase.STACK, Phase.SCALAR):
                continue
            while open_spans and open_spans[-1].end <= span.begin:
                open_spans.pop()
            if open_spans:
                assert span.inside(open_spans[-1]), (open_spans[-1], span)
            open_spans.append(span)


@pytest.fixture
def cold(tmp_path: Path) -> Runner:
    """Run scripts from the start of Python on, as users do."""
    return Runner(tmp_path)


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    process = Warm()
    yield process
    process.close()


@pytest.fixture
def record(tmp_path: Path, warm: Warm) -> Runner:
    """Run scripts in processes that have torch already; see `warm.py`."""
    return Runner(tmp_path, warm)


@pytest.fixture(params=["compiled", "python"])
def hooks(request, monkeypatch):
    """Have hooks of a usual step be compiled, and then not; returns whether they are."""
    if request.param == "python":
        monkeypatch.setenv(ENV_COMPILE, "0")
    elif hotpath.compiled() is None:
        pytest.skip("the hot path was not compiled here: `python hatch_build.py` says why")
    return request.param == "compiled"
