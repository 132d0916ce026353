"""Collectors of system metrics: one plug-in file each; this file defines the interface."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from holter import plugins
from holter.agent.machine.cgroups import SYS, ControlGroup
from holter.agent.machine.procfs import PROC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holter.store.document_types import GpuEntry

Reading = tuple[str, str, float]
"""Device, metric, value. An unavailable value is left out, never 0."""


class Unavailable(Exception):  # noqa: N818 - a machine without a GPU is not an error
    """This machine cannot give what a collector reads; its text says why."""


@dataclass(frozen=True, slots=True)
class LoopThread:
    """The thread of a process that runs the training loop."""

    rank: int
    thread: int
    """Native thread id."""
    head: Path
    """Its head page in the spool, with its open spans."""


@dataclass(slots=True)
class Watched:
    """The processes of the job; the agent keeps it up to date."""

    roots: list[int] = field(default_factory=list)
    """The command, and its orphaned processes."""
    roles: Mapping[int, str] = field(default_factory=dict)
    """trainer or worker, for each pid that records."""
    loops: Mapping[int, LoopThread] = field(default_factory=dict)
    """The training thread of each pid that has one."""
    companions: list[int] = field(default_factory=list)
    """Processes of holter other than the agent."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The files to read, and the processes to measure."""

    proc: Path = PROC
    sys: Path = SYS
    shm: Path = Path("/dev/shm")  # noqa: S108 - it is looked at, nothing is put there
    store: Path | None = None
    """A local folder of the store; None when the store is not on a disk of this machine."""
    cores: frozenset[int] = field(default_factory=lambda: frozenset(os.sched_getaffinity(0)))
    """Cores the job may use."""
    cgroup: ControlGroup = field(default_factory=ControlGroup.of)
    watched: Watched = field(default_factory=Watched)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def cpus(self) -> float:
        """Return how many cores' worth of time the job may use."""
        quota = self.cgroup.cpus()
        return min(quota, len(self.cores)) if quota is not None else float(len(self.cores))


class Collector(ABC):
    """Reads one kind of metric. Made with a `Machine`; raises `Unavailable` where nothing can be read."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.missing: list[tuple[str, str]] = []
        """Metrics that cannot be measured here, and why."""
        self._totals: dict[tuple[str, str], tuple[int, float]] = {}

    def rate(self, now: int, metric: str, total: float, device: str = "") -> float | None:
        """Return the change of a counter per second; None at its first reading, and when it was set back."""
        before, self._totals[device, metric] = self._totals.get((device, metric)), (now, total)
        if before is None or now <= before[0] or total < before[1]:
            return None
        return (total - before[1]) * 1e9 / (now - before[0])

    def rates(self, now: int, totals: Mapping[str, float | None]) -> Iterator[Reading]:
        """Yield the rates of counters without a device; None stands for a counter that does not exist."""
        for metric, total in totals.items():
            if total is not None and (speed := self.rate(now, metric, total)) is not None:
                yield "", metric, speed

    def facts(self) -> list[GpuEntry]:
        """Return the GPUs that it reads, for the facts of the node."""
        return []

    @abstractmethod
    def read(self, now: int) -> Iterable[Reading]:
        """Read all metrics; `now` is monotonic ns. What needs two readings is left out of the first."""


def collectors(machine: Machine) -> tuple[list[Collector], list[tuple[str, str]]]:
    """Make every collector that works here; return them, and (what, why) for those that do not."""
    made: list[Collector] = []
    missing: list[tuple[str, str]] = []
    classes: dict[str, type[Collector]] = {}
    for name, module in plugins.modules(__name__).items():
        types = (value for value in vars(module).values() if isinstance(value, type))
        own = (kind for kind in types if issubclass(kind, Collector) and kind.__module__ == module.__name__)
        for kind in own:
            classes[name] = kind
    try:
        classes |= plugins.external("holter.collectors")
    except ImportError as error:
        missing.append(("collectors of other packages", str(error)))
    for name, kind in classes.items():
        try:
            collector = kind(machine)
        except Unavailable as why:
            missing.append((name, str(why)))
        except Exception as error:
            # A collector is never worth the job.
            missing.append((name, f"{type(error).__name__}: {error}"))
        else:
            made.append(collector)
            missing.extend(collector.missing)
    return made, missing


def read_text(path: Path) -> str:
    """Read a small file of the kernel; raises `Unavailable` when it cannot be read."""
    try:
        return path.read_text()
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error
