"""What `sagemaker.debugger` can be asked to profile in detail, and over which steps or time."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping


class PythonProfiler(str, Enum):
    """Which profiler of Python code."""

    CPROFILE = "cprofile"
    PYINSTRUMENT = "pyinstrument"


class cProfileTimer(str, Enum):  # noqa: N801  upstream's name
    """What cProfile counts as time; DEFAULT takes the three others in turns, one a step."""

    TOTAL_TIME = "total_time"
    CPU_TIME = "cpu_time"
    OFF_CPU_TIME = "off_cpu_time"
    DEFAULT = "default"


@dataclass
class Category:
    """Steps or a time, not both. With neither, or `profile_default_steps`, the category's own steps.

    Raises:
        TypeError: A value of the wrong type.
        ValueError: A value out of range, or steps and a time together.
    """

    start_step: int | None = None
    num_steps: int | None = None
    start_unix_time: int | None = None
    duration: float | None = None
    profile_default_steps: bool = False

    key: ClassVar[str]
    """Its name in `profilerconfig.json`."""
    preset: ClassVar[tuple[int, int]]
    """First step and number of steps by default: two expensive categories never share one."""

    def __post_init__(self) -> None:
        check_range(self.start_step, self.num_steps, self.start_unix_time, self.duration)
        if not isinstance(self.profile_default_steps, bool):
            raise TypeError(
                f"profile_default_steps must be True or False, not {self.profile_default_steps!r}"
            )
        timed = (self.start_unix_time, self.duration) != (None, None)
        if self.profile_default_steps and timed:
            raise ValueError(f"{type(self).__name__}: profile_default_steps and a time are two ranges")
        if self.profile_default_steps or not (timed or self._by_step()):
            self.start_step, self.num_steps = self.preset

    def _by_step(self) -> bool:
        return (self.start_step, self.num_steps) != (None, None)

    def extras(self) -> dict[str, str]:
        """Return the settings besides the range, by their names in the file."""
        return {}

    def serialize(self) -> str:
        """Return what `profilerconfig.json` holds for this category: a text with a dictionary."""
        entries = {
            "StartStep": self.start_step,
            "NumSteps": 1 if self.num_steps is None and self.start_step is not None else self.num_steps,
            "StartTimeInSecSinceEpoch": self.start_unix_time,
            "DurationInSeconds": self.duration,
            **self.extras(),
        }
        return json.dumps({key: value for key, value in entries.items() if value is not None})


@dataclass
class DetailedProfilingConfig(Category):
    """Operators of the framework, and kernels."""

    key = "DetailedProfilingConfig"
    preset = (5, 1)


@dataclass
class DataloaderProfilingConfig(Category):
    """What data loaders do; `metrics_regex` selects among the names of their events."""

    metrics_regex: str = ".*"

    key = "DataloaderProfilingConfig"
    preset = (7, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            re.compile(self.metrics_regex)
        except re.error as error:
            raise ValueError(
                f"metrics_regex {self.metrics_regex!r} is no regular expression: {error}"
            ) from None

    def extras(self) -> dict[str, str]:
        """Return the expression."""
        return {"MetricsRegex": self.metrics_regex}


@dataclass
class PythonProfilingConfig(Category):
    """Functions of Python."""

    python_profiler: PythonProfiler = PythonProfiler.CPROFILE
    cprofile_timer: cProfileTimer = cProfileTimer.TOTAL_TIME

    key = "PythonProfilingConfig"
    preset = (9, 3)

    def __post_init__(self) -> None:
        super().__post_init__()
        for value, kind in ((self.python_profiler, PythonProfiler), (self.cprofile_timer, cProfileTimer)):
            if not isinstance(value, kind):
                raise TypeError(f"{value!r} is not one of {kind.__name__}: {', '.join(kind.__members__)}")
        if self.profile_default_steps:
            self.cprofile_timer = cProfileTimer.DEFAULT

    def extras(self) -> dict[str, str]:
        """Return the profiler, and cProfile's timer."""
        name = {"ProfilerName": self.python_profiler.value}
        sampling = self.python_profiler is PythonProfiler.PYINSTRUMENT
        return name if sampling else {**name, "cProfileTimer": self.cprofile_timer.value}


@dataclass
class HorovodProfilingConfig(Category):
    """Collectives of Horovod; here they are among the operators."""

    key = "HorovodProfilingConfig"
    preset = (13, 1)


@dataclass
class SMDataParallelProfilingConfig(Category):
    """Collectives of SageMaker's data parallel library; here they are among the operators."""

    key = "SMDataParallelProfilingConfig"
    preset = (15, 1)


CATEGORIES: Mapping[str, type[Category]] = {
    "detailed_profiling_config": DetailedProfilingConfig,
    "dataloader_profiling_config": DataloaderProfilingConfig,
    "python_profiling_config": PythonProfilingConfig,
    "horovod_profiling_config": HorovodProfilingConfig,
    "smdataparallel_profiling_config": SMDataParallelProfilingConfig,
}
"""Every category by its parameter of `FrameworkProfile`."""


def check_range(
    start_step: int | None, num_steps: int | None, start_unix_time: int | None, duration: float | None
) -> None:
    """Check one range; raises `TypeError` for a wrong type, `ValueError` for a wrong value."""
    if (start_step, num_steps) != (None, None) and (start_unix_time, duration) != (None, None):
        raise ValueError(
            "steps (start_step, num_steps) and a time (start_unix_time, duration) are two ranges; give one"
        )
    check("start_step", start_step, int, 0)
    check("num_steps", num_steps, int, 1)
    check("start_unix_time", start_unix_time, int, 0)
    check("duration", duration, (int, float), 0)
    if duration == 0:
        raise ValueError("duration 0 is not above 0 seconds")


def check(name: str, value: Any, kind: type | tuple[type, ...], least: float) -> None:
    """Check one number, which may be None; raises `TypeError` or `ValueError` naming it."""
    if value is None:
        return
    number: Any = value
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{name} must be {'an integer' if kind is int else 'a number'}, not {value!r}")
    if not number >= least:
        raise ValueError(f"{name} {value!r} is below {least}")
