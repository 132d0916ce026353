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
    from collections.abc import Iterable, Mapping

    from holter.store.document_types import GpuEntry

Reading = tuple[str, str, float]
"""Device, metric, value. An unavailable value is left out, never 0."""


class Unavailable(Exception):  # noqa: N818 - a machine without a GPU is not an error
    """This machine cannot give what a collector reads; its text says why."""


@dataclass(slots=True)
class Watched:
    """The processes that are looked at; the agent keeps it up to date."""

    roots: list[int] = field(default_factory=list)
    """The command, and processes of its that were orphaned."""
    roles: Mapping[int, str] = field(default_factory=dict)
    """trainer or worker, for each pid that records."""
    companions: list[int] = field(default_factory=list)
    """Our own processes beside the agent."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where to read, and whom to look at."""

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
        """What of it cannot be measured here, and why."""

    def facts(self) -> list[GpuEntry]:
        """Return the GPUs that it reads, for the facts of the node."""
        return []

    @abstractmethod
    def read(self, now: int) -> Iterable[Reading]:
        """Read all metrics; `now` is monotonic ns. What needs two readings is left out of the first."""


class Rate:
    """Change of a counter per second, between one reading and the next."""

    def __init__(self) -> None:
        self._before: tuple[int, float] | None = None

    def per_second(self, now: int, value: float) -> float | None:
        """Return the rate since the last reading; None at the first, and when the counter was set back."""
        before, self._before = self._before, (now, value)
        if before is None or now <= before[0] or value < before[1]:
            return None
        return (value - before[1]) * 1e9 / (now - before[0])


def collectors(machine: Machine) -> tuple[list[Collector], list[tuple[str, str]]]:
    """Make every collector that works here; return them, and (what, why) for those that do not."""
    made: list[Collector] = []
    missing: list[tuple[str, str]] = []
    classes: dict[str, type[Collector]] = {}
    for name, module in plugins.modules(__name__).items():
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, Collector)
                and value.__module__ == module.__name__
            ):
                classes[name] = value
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
