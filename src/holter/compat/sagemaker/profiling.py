"""`ProfilerConfig` and `FrameworkProfile` of `sagemaker.debugger`, as the windows they ask for."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from holter.agent.profilerconfig import read
from holter.compat.sagemaker.categories import (
    CATEGORIES,
    Category,
    DataloaderProfilingConfig,
    DetailedProfilingConfig,
    HorovodProfilingConfig,
    PythonProfilingConfig,
    SMDataParallelProfilingConfig,
    check,
    check_range,
)
from holter.schema.metrics import INTERVALS_MS

if TYPE_CHECKING:
    from holter.schema.windows import Request

MAX_ENTRIES, MAX_CHARACTERS = 20, 256


@dataclass
class FrameworkProfile:
    """What is profiled in detail, and when.

    With categories: only these. With a range and none: that range for every category. With neither: every
    category at its own steps.

    Raises:
        TypeError: A value of the wrong type.
        ValueError: A value out of range.
    """

    local_path: str = "/opt/ml/output/profiler"
    file_max_size: int = 10_485_760
    file_close_interval: float = 60
    file_open_fail_threshold: int = 50
    detailed_profiling_config: DetailedProfilingConfig | None = None
    dataloader_profiling_config: DataloaderProfilingConfig | None = None
    python_profiling_config: PythonProfilingConfig | None = None
    horovod_profiling_config: HorovodProfilingConfig | None = None
    smdataparallel_profiling_config: SMDataParallelProfilingConfig | None = None
    start_step: int | None = None
    num_steps: int | None = None
    start_unix_time: int | None = None
    duration: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.local_path, str):
            raise TypeError(f"local_path must be a text, not {self.local_path!r}")
        check("file_max_size", self.file_max_size, int, 1)
        check("file_close_interval", self.file_close_interval, (int, float), 0)
        check("file_open_fail_threshold", self.file_open_fail_threshold, int, 1)
        range_ = (self.start_step, self.num_steps, self.start_unix_time, self.duration)
        check_range(*range_)
        given = {name: getattr(self, name) for name in CATEGORIES if getattr(self, name) is not None}
        for name, category in given.items():
            if not isinstance(category, CATEGORIES[name]):
                raise TypeError(f"{name} must be a {CATEGORIES[name].__name__}, not {category!r}")
        if given and any(value is not None for value in range_):
            warnings.warn(
                "the range of FrameworkProfile has no effect beside categories, which have their own",
                stacklevel=3,
            )
        self._categories: list[Category] = list(given.values())
        if not given:
            self._categories = [made(*range_) for made in CATEGORIES.values()]
            if all(value is None for value in range_):
                self._categories[2] = PythonProfilingConfig(profile_default_steps=True)

    @property
    def profiling_parameters(self) -> dict[str, str]:
        """What `profilerconfig.json` holds under `ProfilingParameters`."""
        return {
            "LocalPath": self.local_path,
            "RotateMaxFileSizeInBytes": str(self.file_max_size),
            "RotateFileCloseIntervalInSeconds": str(self.file_close_interval),
            "FileOpenFailThreshold": str(self.file_open_fail_threshold),
            **{category.key: category.serialize() for category in self._categories},
        }


@dataclass
class Profiler:
    """The low-level profiler, which the script starts and stops through `holter.compat.smppy`."""

    cpu_profiling_duration: float = 3600
    file_rotation_interval: float = 600

    def __post_init__(self) -> None:
        for field in fields(self):
            check(field.name, getattr(self, field.name), (int, float), 0)

    @property
    def profiling_parameters(self) -> dict[str, str]:
        """What `profilerconfig.json` holds under `ProfilingParameters`."""
        return {
            "CPUProfilingDuration": str(self.cpu_profiling_duration),
            "SMPFileRotationSecs": str(self.file_rotation_interval),
        }


class ProfilerConfig:
    """How a job is profiled.

    Raises:
        TypeError: A value of the wrong type.
        ValueError: An invalid interval, or both kinds of profile.
    """

    def __init__(
        self,
        s3_output_path: str | None = None,
        system_monitor_interval_millis: int | None = None,
        framework_profile_params: FrameworkProfile | None = None,
        profile_params: Profiler | None = None,
        disable_profiler: bool = False,
        *,
        profiler_params: Profiler | None = None,
    ) -> None:
        low_level = profile_params or profiler_params  # the announcement spells it otherwise
        if low_level is not None and framework_profile_params is not None:
            raise ValueError("give framework_profile_params or profile_params, not both")
        for name, value, kind in (
            ("s3_output_path", s3_output_path, str),
            ("framework_profile_params", framework_profile_params, FrameworkProfile),
            ("profile_params", low_level, Profiler),
            ("disable_profiler", disable_profiler, bool),
        ):
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{name} must be a {kind.__name__}, not {value!r}")
        if system_monitor_interval_millis not in (None, *INTERVALS_MS):
            raise ValueError(
                f"system_monitor_interval_millis {system_monitor_interval_millis!r} is not valid;"
                f" valid: {', '.join(map(str, INTERVALS_MS))}"
            )
        self.s3_output_path = s3_output_path
        self.system_monitor_interval_millis = system_monitor_interval_millis
        self.framework_profile_params = framework_profile_params
        self.profile_params = low_level
        self.disable_profiler = disable_profiler

    def serialize(self) -> dict[str, object]:
        """Return what `profilerconfig.json` holds.

        Raises:
            ValueError: More than 20 parameters, or one of more than 256 characters.
        """
        if self.disable_profiler:
            return {"DisableProfiler": True}
        profile = self.framework_profile_params or self.profile_params
        parameters = {} if profile is None else profile.profiling_parameters
        long = [key for key, value in parameters.items() if max(len(key), len(value)) > MAX_CHARACTERS]
        if long or len(parameters) > MAX_ENTRIES:
            raise ValueError(
                f"{long[0]} has more than {MAX_CHARACTERS} characters" if long else "too many parameters"
            )
        entries = {
            "S3OutputPath": self.s3_output_path,
            "ProfilingIntervalInMilliseconds": self.system_monitor_interval_millis,
            "DisableProfiler": False,
            "ProfilingParameters": parameters or None,
        }
        return {key: value for key, value in entries.items() if value is not None}

    def windows(self) -> tuple[Request, ...]:
        """Return the windows this asks for, as holter opens them."""
        return read(self.serialize()).windows
