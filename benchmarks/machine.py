"""The machine that a benchmark runs on, in words, and the commands that it starts there, bare or recorded."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Ratio:
    """A number of a command without holter, and how it changes with it."""

    bare: float
    """Its median without holter."""
    ratio: float
    """The median of the ratios of the turns; `low` and `high` bound the middle half of them."""
    low: float
    high: float

    @classmethod
    def of(cls, turns: list[tuple[float, float]]) -> Ratio:
        """Compare the numbers of turns: without, with."""
        ratios = [recorded / bare for bare, recorded in turns]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return cls(statistics.median(bare for bare, _ in turns), middle, low, high)

    def __str__(self) -> str:
        return f"{self.ratio:.3f} ({self.low:.3f} to {self.high:.3f})"


def described() -> str:
    """Describe processor, cores, memory, load and versions in one line."""
    cores = len(os.sched_getaffinity(0))
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    try:
        torch = f", torch {version('torch')}"
    except PackageNotFoundError:
        torch = ""
    kernel = f"{platform.system()} {platform.release().split('-')[0]}"
    python = f"Python {platform.python_version()}{torch}"
    return f"{_processor()}, {cores} cores, {gib:.0f} GiB, {kernel}, {python}, load {load:.1f} at the end"


def pace() -> float:
    """Return the least CPU milliseconds of five runs of a fixed loop.

    A shared machine may run at half its speed for minutes while nothing else is seen to run: a figure in
    seconds means something beside this one only.
    """
    taken = []
    for _ in range(5):
        began, numbers = time.process_time(), dict[str, int]()
        for i in range(200_000):
            numbers[str(i % 1000)] = numbers.get(str(i % 997), 0) + i
        taken.append(time.process_time() - began)
    return 1e3 * min(taken)


def environment() -> dict[str, str]:
    """Return the environment of a command that finds this source tree and computes on one thread."""
    path = os.pathsep.join(filter(None, [str(HERE.parent / "src"), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def python_of(framework: str) -> str:
    """Return the Python of the environment that `scripts/frameworks` makes."""
    environments = Path(os.environ.get("HOLTER_FRAMEWORKS") or HERE.parent / ".frameworks")
    return str(environments / framework / "bin/python")


def compared(command: list[str], rounds: int, options: Sequence[str] = ("--no-rules",)) -> dict[str, Ratio]:
    """Run a command in turn bare and under `holter run`; compare the numbers of each turn.

    The last line that the command prints is a JSON object of numbers. Which one is first changes with each
    turn, so that a machine that becomes slower or busier hits both alike.
    """
    turns: list[dict[str, dict[str, float]]] = []
    for turn in range(rounds):
        both = {"bare": None, "recorded": list(options)}
        order = list(both) if turn % 2 else list(both)[::-1]
        turns.append({kind: json.loads(last_line(command, both[kind])) for kind in order})
    return {
        name: Ratio.of([(turn["bare"][name], turn["recorded"][name]) for turn in turns])
        for name in turns[0]["bare"]
    }


def as_json(found: dict[str, dict[str, Ratio]]) -> str:
    """Return the comparisons of several commands as JSON."""
    return json.dumps(
        {name: {part: asdict(one) for part, one in parts.items()} for name, parts in found.items()}
    )


def last_line(command: list[str], options: list[str] | None) -> str:
    """Run a command, bare or under `holter run` with these options; return the last line that it prints."""
    with tempfile.TemporaryDirectory() as store:
        if options is not None:
            command = [sys.executable, "-m", "holter", "run", "--store", store, *options, "--", *command]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment(), cwd=store
        )
    return done.stdout.strip().splitlines()[-1]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
