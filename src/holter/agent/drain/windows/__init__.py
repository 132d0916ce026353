"""Converts files of profiling windows into rows: one module for each profiler, and their interface.

A module is called as its profiler in `holter.schema.windows.PROFILERS`, or as the format that the fact of the
window names, and has one function::

    def rows(path: Path, fact: Fact, clock: Clock) -> Mapping[str, Columns]: ...

It reads the file that the profiler of `holter.recorder.profilers` wrote, and returns columns of tables of the
schema by table, without the column `rank`, which the caller adds. What does not fit the format is a
`ValueError`; nothing in the file is executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.agent.drain.clock import Clock
    from holter.store.parquet.columns import Columns


@dataclass(frozen=True, slots=True)
class Fact:
    """The facts of a process about a window that is over."""

    profiler: str
    first_step: int
    last_step: int
    """Exclusive."""
    bounds: list[int]
    """When each step began, and the last ended, monotonic ns; one more than there are steps."""
    process: str
    wall_minus_monotonic: int = 0
    """Nanoseconds between the clocks of the process then: what a profiler timed by the wall clock."""
    stop_ns: int = 1 << 62
    """The time that the profiler waited for the device when the window ended."""

    def steps(self, begins: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the step in which each moment lies, monotonic ns; the nearest of the window's."""
        inner = np.array(self.bounds[1:-1], np.int64)
        return (self.first_step + np.searchsorted(inner, begins, side="right")).astype(np.int32)


class WindowReader(Protocol):
    """What a module of this folder must offer."""

    def rows(self, path: Path, fact: Fact, clock: Clock) -> Mapping[str, Columns]:
        """Return columns by table."""
        ...


def reader(kind: str) -> WindowReader:
    """Return the module for a profiler or a format; raises `LookupError` for an unknown one."""
    name = f"{__name__}.{kind}"
    if not kind.isidentifier() or find_spec(name) is None:
        raise LookupError(f"this version makes no rows of windows of {kind!r}")
    return cast("WindowReader", import_module(name))
