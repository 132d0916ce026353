"""Read a spool that is whole, and run scripts that write one."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from holter.agent.drain.segments import RECORD, unfold
from holter.schema import record
from holter.schema.phases import Phase

SOURCE = Path(__file__).resolve().parents[2] / "src"
PACKAGE = f"{SOURCE / 'holter'}{os.sep}"
"""How paths of our own files begin; the checkout may lie in a folder that is called holter too."""
BOOTSTRAP = SOURCE / "holter" / "recorder" / "bootstrap"


@dataclass
class Span:
    begin: int
    duration: int
    value: float
    step: int
    name: str
    mode: int
    phase: str

    @property
    def end(self):
        return self.begin + self.duration


@dataclass
class Thread:
    spans: list[Span] = field(default_factory=list)
    open: list[tuple[str, str]] = field(default_factory=list)
    """(phase, name), outermost first."""
    step: int = 0
    dropped: int = 0
    native: int = 0
    cost_ns: int = 0


@dataclass
class Process:
    key: str
    lines: list[dict] = field(default_factory=list)
    threads: dict[int, Thread] = field(default_factory=dict)

    def facts(self, kind):
        return [line[kind] for line in self.lines if kind in line]

    @property
    def identity(self):
        return self.facts("process")[-1]

    @property
    def main(self):
        return self.threads[0]

    def spans(self, phase=None):
        return [s for t in self.threads.values() for s in t.spans if phase in (None, s.phase)]


def read(spool) -> dict[str, Process]:
    """Return every process of a spool directory, by its key."""
    processes: dict[str, Process] = {}
    for path in sorted(Path(spool).glob("*.journal")):
        process = processes[path.stem] = Process(path.stem)
        # A line that was cut by a full disk is there to be skipped; a reader must live with it.
        for line in path.read_bytes().splitlines():
            try:
                process.lines.append(json.loads(line))
            except ValueError:
                process.lines.append({"damaged": line})
        names = {0: "", **dict(process.facts("name"))}
        for head in Path(spool).glob(f"{path.stem}.*.head"):
            process.threads[int(head.name.split(".")[1])] = _thread(Path(spool), head, names)
    return processes


def only(spool) -> Process:
    """Return the one process of a spool."""
    processes = read(spool)
    assert len(processes) == 1, sorted(processes)
    return next(iter(processes.values()))


def _thread(spool, head, names):
    words = struct.unpack(f"={record.HEAD_SIZE // 8}q", head.read_bytes())
    assert words[0] == record.HEAD_MAGIC
    assert words[record.HEAD_VERSION] == record.SPOOL_VERSION
    thread = Thread(
        step=words[record.HEAD_STEP],
        dropped=words[record.HEAD_DROPPED],
        native=words[record.HEAD_THREAD],
        cost_ns=words[record.HEAD_COST],
    )
    for at in range(record.HEAD_OPEN, record.HEAD_OPEN + 2 * record.MAX_OPEN, 2):
        if not words[at + 1]:
            break
        thread.open.append((Phase(words[at + 1] & 255).name.lower(), names[words[at + 1] >> 8]))
    process, number, _ = head.name.split(".")
    segments = sorted(spool.glob(f"{process}.{number}.*.seg"), key=lambda p: int(p.name.split(".")[2]))
    for segment in segments:
        records = unfold(np.fromfile(segment, RECORD))
        for begin, duration, value, step, name, mode, phase in records.tolist():
            if phase == 0:
                break
            if phase == Phase.SCALAR:
                step, duration = record.scalar_step(step, duration), 0
            thread.spans.append(
                Span(begin, duration, value, step, names[name], mode, Phase(phase).name.lower())
            )
    return thread


def environment(spool=None, **extra):
    """Return the environment of a child that `holter run` would start; unrecorded when `spool` is None."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if k not in ("PYTHONPATH", "HOLTER_SPOOL", "HOLTER_DISABLE", "RANK")
    }
    if spool is not None:
        kept |= {"HOLTER_SPOOL": str(spool), "PYTHONPATH": str(BOOTSTRAP)}
    return kept | {k: str(v) for k, v in extra.items()}


def run(spool, code, *options, python=sys.executable, env=None, **kwargs):
    """Run a script under the recorder, as the agent starts it; `spool` None runs it alone."""
    return subprocess.run(
        [python, *options, "-c", code],
        env=env or environment(spool),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        **kwargs,
    )


def pythons() -> dict[str, str]:
    """Return the Pythons of this machine that the recorder supports, by version; this one is always there."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(10, 16):
        name = f"python3.{minor}"
        path = next(root.glob(f"3.{minor}.*/bin/{name}"), None) or shutil.which(name)
        if path is not None:
            found.setdefault(f"3.{minor}", str(path))
    return found


def edges() -> list[str]:
    """Return the oldest and the newest of these Pythons for which the hot path is compiled."""
    versions = sorted((one for one in pythons() if one != "3.10"), key=lambda one: int(one[2:]))
    return sorted({versions[0], versions[-1]}, key=versions.index)
