"""Samples the Python stack of a training at a low rate with py-spy, which only reads its memory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holter.agent.machine.procfs import PROC, file_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.agent.drain.drain import Drain
    from holter.agent.drain.journal import Process
    from holter.agent.drain.pipeline import Pipeline
    from holter.agent.supervision.companions import Companions
    from holter.store.parquet.columns import Columns
    from holter.store.writer import Writer

VARIABLE = "HOLTER_PYTHON_HZ"
"""Environment variable with the samples per second; unset or 0 means never. `--python-hz` sets it."""
MAX_HZ = 20.0
PART_S = 10
"""Seconds of one row of `python_stacks`, and how late it comes."""
MAX_BYTES = 16 << 20
_LINE = re.compile(r"thread \((?P<thread>\d+)\): (?P<name>[^;]*);(?P<stack>.+) (?P<samples>\d+)")
_SPY = "py-spy"


def rate(environment: Mapping[str, str]) -> float:
    """Return the samples per second, 0 for never; raises `ValueError` beyond `MAX_HZ`."""
    text = environment.get(VARIABLE) or "0"
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= MAX_HZ:
        raise ValueError(f"{VARIABLE}={text!r} is out of range; valid: 0 (never) to {MAX_HZ:g} a second")
    return found


def find() -> str | None:
    """Return the path of py-spy: next to this Python, or from PATH."""
    own = Path(sysconfig.get_path("scripts"), _SPY)
    return str(own) if os.access(own, os.X_OK) else shutil.which(_SPY)


def missing() -> str:
    """Return why samples are impossible here; empty when they are possible."""
    if find() is None:
        return "py-spy is not installed (pip install py-spy)"
    return refused()


def refused() -> str:
    """Return why py-spy may not read a training; empty when a child may read the memory of this process."""
    try:
        reads = subprocess.run(["/bin/sh", "-c", ": < /proc/$PPID/mem"], capture_output=True, check=False)
        if reads.returncode == 0:
            return ""
    except OSError as error:
        return f"whether a process may read the memory of another cannot be tried: {error}"
    why = "no process may read the memory of another here (ptrace is refused)"
    if not (scope := file_text(PROC / "sys/kernel/yama/ptrace_scope")):
        return f"{why}; in a container, --cap-add SYS_PTRACE may help"
    return f"{why}; kernel.yama.ptrace_scope is {scope}, 0 or the capability SYS_PTRACE would allow it"


def samples(
    environment: Mapping[str, str], pipeline: Pipeline, companions: Companions
) -> tuple[PythonSamples | None, str]:
    """Return the sampler of this job, or the reason why a requested sampler is missing."""
    try:
        hz = rate(environment)
    except ValueError as error:
        return None, str(error)
    if not hz or pipeline.drain is None:
        return None, ""
    why = missing()
    return (None, why) if why else (PythonSamples(pipeline.drain, pipeline.writer, companions, hz), "")


class _Part(NamedTuple):
    """One run of py-spy."""

    process: Process
    path: Path
    begin: int
    step: int


class PythonSamples:
    """Keeps one py-spy at work on the process of the lowest rank, part after part."""

    def __init__(self, drain: Drain, writer: Writer, companions: Companions, hz: float) -> None:
        self._drain = drain
        self._writer = writer
        self._companions = companions
        self._hz = hz
        self._part: _Part | None = None
        self._count = 0

    def look(self) -> None:
        """Write the rows of a part that is over, and begin the next part. Raises `OSError`."""
        part = self._part
        if part is not None:
            if self._companions.runs(str(part.path)):
                return
            self._part = None
            if rows := self._read(part):
                self._writer.append("python_stacks", rows)
        training = [one for one in self._drain.trainers() if one.died is None and one.records]
        if training:
            self._begin(min(training, key=self._drain.ranks.of))

    def _begin(self, process: Process) -> None:
        self._count += 1
        path = self._drain.spool / f"{process.key}.{self._count}.samples"
        words = ["record", "--pid", str(process.pid), "--rate", f"{self._hz:g}", "--duration", str(PART_S)]
        words += ["--nonblocking", "--idle", "--threads", "--function", "--full-filenames"]
        spy = find()
        if spy is None:
            raise FileNotFoundError(missing())
        self._companions.add([spy, *words, "--format", "raw", "--output", str(path)])
        self._part = _Part(process, path, time.monotonic_ns(), max(process.last_head_step, process.last_step))

    def _read(self, part: _Part) -> Columns | None:
        """Return the rows of a part; None when it found nothing. Other lines are left out."""
        try:
            with part.path.open("rb") as file:
                text = file.read(MAX_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return None  # the process ended at once, or py-spy said why it could not
        finally:
            part.path.unlink(missing_ok=True)
        lines = [match for line in text.splitlines() if (match := _LINE.fullmatch(line))]
        head = part.process.loop_head
        loop = [match for match in lines if head is not None and int(match["thread"]) == head.thread]
        # In another pid namespace the numbers are others.
        found = loop or [match for match in lines if match["name"] == "MainThread"]
        if not found:
            return None
        samples = [int(match["samples"]) for match in found]
        rows = len(found)
        return {
            "time": [self._drain.clock.to_wall(part.begin)] * rows,
            "duration": [time.monotonic_ns() - part.begin] * rows,
            "rank": [self._drain.ranks.of(part.process)] * rows,
            "step": [part.step] * rows,
            "mode": ["global"] * rows,
            "phase": ["any"] * rows,
            "stack": [match["stack"] for match in found],
            "samples": samples,
            "self_time": [round(count * 1e9 / self._hz) for count in samples],
        }
