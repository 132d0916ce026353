"""What smdebug's analyses of Python profiles return."""

from __future__ import annotations

import pstats
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from holter.frame import optional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.compat.smdebug.profiler.analysis.python_stats_reader import StepPythonProfileStats


class Metrics(Enum):
    """What functions are ordered by."""

    TOTAL_TIME = "tottime"
    CUMULATIVE_TIME = "cumtime"
    PRIMITIVE_CALLS = "pcalls"
    TOTAL_CALLS = "ncalls"


@dataclass(frozen=True)
class cProfileFunctionStats:  # noqa: N801 - smdebug's name
    """One function; times in seconds."""

    function_name: str
    """`file:line(function)`."""
    prim_calls: int
    total_calls: int
    total_time: float
    cumulative_time: float
    callers: tuple[cProfileFunctionStats, ...] = ()


class cProfileStats:  # noqa: N801 - smdebug's name
    """Statistics of several segments, added up; `ps` is `pstats.Stats` of Python's own."""

    def __init__(self, ps: pstats.Stats) -> None:
        self.ps = ps
        stats = ps.stats  # type: ignore[attr-defined]
        self.function_stats_list = [
            cProfileFunctionStats(
                _name(name),
                primitive,
                total,
                seconds,
                cumulative,
                tuple(
                    cProfileFunctionStats(_name(caller), by[1], by[0], by[2], by[3])
                    for caller, by in callers.items()
                ),
            )
            for name, (primitive, total, seconds, cumulative, callers) in stats.items()
        ]

    def print_top_n_functions(self, by: Metrics, n: int = 10) -> None:
        """Print the first functions; raises `TypeError` for what is no metric and no number."""
        if not isinstance(by, Metrics):
            raise TypeError(f"by is {by!r}; expected one of {', '.join(map(str, Metrics))}")
        if type(n) is not int or n < 1:
            raise TypeError(f"n is {n!r}; expected a whole number of at least 1")
        self.ps.sort_stats(by.value).print_stats(n)

    def get_function_stats(self) -> Any:
        """Return a frame of pandas, a row a function, its numbers as numbers; most time first."""
        rows = [
            (one.function_name, one.prim_calls, one.total_calls, one.total_time, one.cumulative_time)
            for one in self.function_stats_list
        ]
        columns = ["function_name", "prim_calls", "total_calls", "total_time", "cumulative_time"]
        frame = optional("pandas").DataFrame(rows, columns=columns)
        return frame.sort_values("total_time", ascending=False, kind="stable", ignore_index=True)


@dataclass(frozen=True)
class PyinstrumentStepStats:
    """One segment: the page that pyinstrument drew of it, if it did, and its tree."""

    html_file_path: str | None
    json_stats: dict[str, Any]


def added(segments: Sequence[StepPythonProfileStats]) -> cProfileStats:
    """Add up segments of cProfile.

    Raises:
        ValueError: They were timed differently; such times do not add up.
        UnreadableError: A file cannot be read.
    """
    timers = {one.timer for one in segments}
    if len(timers) > 1:
        raise ValueError(
            f"these segments were timed by {', '.join(sorted(timers))}, whose times do not add up; "
            "ask for steps of one timer"
        )
    whole = pstats.Stats()
    for one in segments:
        part = pstats.Stats()
        part.stats = one.load()  # type: ignore[attr-defined]
        part.get_top_level_stats()
        part.files = [one.stats_path]  # type: ignore[attr-defined]
        whole.add(part)
    return cProfileStats(whole)


def _name(function: tuple[str, int, str]) -> str:
    return pstats.func_std_string(function)  # type: ignore[attr-defined, no-any-return]
