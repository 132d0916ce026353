"""Marks a window of data loading, which is recorded all the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holter.recorder.profiling_window import ProfilingWindow, WindowSession


class DataLoaderProfiler:
    """Marks the requested steps; `holter.analysis.loading.loader_timeline` says what happened in them."""

    def __init__(self, session: WindowSession, window: ProfilingWindow) -> None:
        self._names = window.parameters.get("names")

    def start(self) -> None:
        """Nothing: every batch of every worker is a span."""

    def stop(self) -> dict[str, Any]:
        """Say where it is."""
        return {"recorded_in": "spans", **({"names": self._names} if self._names else {})}


PROFILER = DataLoaderProfiler
