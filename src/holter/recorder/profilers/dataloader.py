"""Marks a window of data loading, which is always recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.recorder.profiling_window import ProfilingWindow, WindowSession


class DataLoaderProfiler:
    """Marks the requested steps; `holter.analysis.loading.loader_timeline` shows them."""

    def __init__(self, session: WindowSession, window: ProfilingWindow) -> None:
        self._names = window.parameters.get("names")

    def start(self) -> None:
        """Do nothing: every batch of every worker is a span."""

    def stop(self) -> dict[str, object]:
        """Return where the data are."""
        return {"recorded_in": "spans", **({"names": self._names} if self._names else {})}


PROFILER = DataLoaderProfiler
