"""Sinks: send verdict, key numbers and scalars of a job to an experiment tracker. One module each.

A sink is a module with `ABOUT`, `NEEDS` (the package that it needs, empty for none),
`OPTIONS`, `LIVE` and `open_run(target, job) -> TrackerRun`. It runs in a process of holter, never in the
training.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, cast

from holter.plugins import modules
from holter.views.wording import meant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX = "holter/"
"""Begin of the names of all numbers, so that they do not collide with those of the training."""


class SinkError(Exception):
    """Says why a tracker cannot be reached, or did not take the numbers."""


@dataclass(frozen=True, slots=True)
class TrackerTarget:
    """Where a job goes: `NAME`, or `NAME:option=value,option=value`."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SentJob:
    """What a sink is told about a job when it opens its run."""

    name: str
    url: str
    began_ns: int
    folder: str
    """The folder in which the command ran."""
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StepNumbers:
    """Numbers of one step."""

    step: int
    time_ns: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TrackerVerdict:
    """What is sent at the end of a job."""

    sentence: str
    suspect: str
    text: str
    """The card as Markdown."""
    numbers: Mapping[str, float]
    link: str


class TrackerRun(Protocol):
    """An open run of a tracker. Every method raises `SinkError`."""

    where: str
    """What people call the run: its address, file or name."""

    @property
    def resume(self) -> Mapping[str, str]:
        """Options that open this run again in another process."""

    def log(self, points: Sequence[StepNumbers]) -> None:
        """Add numbers of steps, in order."""

    def judge(self, found: TrackerVerdict) -> None:
        """Add the verdict at the end."""

    def close(self) -> None:
        """Write what is left."""


class TrackerSink(Protocol):
    """A module of this folder."""

    ABOUT: str
    NEEDS: str
    OPTIONS: tuple[str, ...]
    LIVE: bool
    """Whether it takes numbers while the training runs."""

    def open_run(self, target: TrackerTarget, job: SentJob) -> TrackerRun:
        """Return the run that the training itself has open, else a new one. Raises `SinkError`."""


def sinks() -> dict[str, TrackerSink]:
    """Return all sinks by name."""
    return {name: cast("TrackerSink", module) for name, module in modules(__name__).items()}


def target(text: str) -> TrackerTarget:
    """Read `NAME[:option=value,…]`.

    Raises:
        ValueError: An unknown tracker or option, or a package that is not installed; says what to install.
    """
    name, _, rest = text.partition(":")
    known = sinks()
    if name not in known:
        raise ValueError(f"no tracker {name!r}{meant(name, known)}; there are: {', '.join(known)}")
    found: dict[str, str] = {}
    valid = known[name].OPTIONS
    for part in filter(None, rest.split(",")):
        option, equals, value = part.partition("=")
        if option not in valid or not equals or not value:
            listed = ", ".join(f"{one}=…" for one in valid)
            raise ValueError(f"{name}: {part!r} is not an option; valid: {listed}")
        found[option] = value
    package = known[name].NEEDS
    if package and find_spec(package) is None:
        raise ValueError(f"{name} needs the package {package}; install it: pip install 'holter[{name}]'")
    return TrackerTarget(name, found)
