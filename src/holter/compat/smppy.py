"""`smppy` (later `smprof`), SageMaker's low-level profiler, on holter's annotations and windows.

Of a script that uses it, the import changes and nothing else: `from holter.compat import smppy`.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from holter.recorder import marked_ranges as _ranges
from holter.recorder import session as _session
from holter.recorder.guard import tell
from holter.schema.windows import MAX_STEPS, ProfilingOrder, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Config", "SMProfiler", "annotate", "annotation_begin", "annotation_end"]

OPTIONS = (
    "EnableCuda",
    "EnablePerf",
    "EnableForkFollow",
    "BucketCount",
    "BucketSizeMB",
    "Compression",
    "RecordFile",
)
"""Options of upstream. All but `EnableCuda` say how it captures, and have no effect here."""


class Config:
    """What `SMProfiler.configure` takes."""

    def __init__(self) -> None:
        self.profiler: Mapping[str, str] = {}
        """Options by name, of `OPTIONS`; the values are texts."""


class SMProfiler:
    """The profiler of this process. What it captures is a window of operators and kernels."""

    _instance: SMProfiler | None = None

    def __init__(self) -> None:
        self._wanted = True

    @classmethod
    def instance(cls) -> SMProfiler:
        """Return the one of this process."""
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    def configure(self, config: Config) -> None:
        """Take options; with `EnableCuda` "0" nothing is captured. A warning names an unknown option."""
        for name in config.profiler:
            if name not in OPTIONS:
                near = get_close_matches(name, OPTIONS, n=1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                tell(f"smppy: no option {name!r}{hint}; valid: {', '.join(OPTIONS)}")
        self._wanted = str(config.profiler.get("EnableCuda", "1")) != "0"

    def start_profiling(self) -> None:
        """Capture operators and kernels from the next step on, where this process is recorded.

        Until `stop_profiling`, the end of the process, or 10,000 steps.
        """
        if self._wanted and _session.current is not None:
            _session.current.windows.take(ProfilingOrder((Request("operators", steps=MAX_STEPS),), "smppy"))

    def stop_profiling(self) -> None:
        """End what `start_profiling` began."""
        if self._wanted and _session.current is not None:
            _session.current.windows.take(ProfilingOrder((), "smppy", replace=True))


def annotate(name: str) -> Any:
    """Name a stretch of code: `with smppy.annotate("Forward"):`."""
    return _ranges.named(name)


def annotation_begin(name: str) -> str:
    """Begin a stretch of code anywhere; returns what `annotation_end` takes, on the same thread."""
    _ranges.begin(name)
    return name


def annotation_end(handle: str) -> None:
    """End what `annotation_begin` began."""
    _ranges.end(handle)
