"""smdebug's readers of system metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holter.compat.smdebug.profiler.readers import MetricsReader

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLUMNS = ("type", "name", "dimension", "value", "node")


@dataclass(frozen=True, slots=True)
class ProfilerSystemEvents:
    """One reading; `timestamp` in seconds since the epoch."""

    type: str
    name: str | None
    dimension: str
    value: float
    node_id: str
    timestamp: float


class SystemMetricsReader(MetricsReader[ProfilerSystemEvents]):
    """Reads system metrics."""

    def _read(
        self, start: int, end: int | None, event_type: str | None, suffixes: Sequence[str] | None
    ) -> list[ProfilerSystemEvents]:
        rows = self.source.readings(start, end)
        found = zip(*(rows[name].tolist() for name in _COLUMNS), (rows["time"] / 1e6).tolist(), strict=True)
        return [ProfilerSystemEvents(*row) for row in found if event_type in (None, row[0])]


class LocalSystemMetricsReader(SystemMetricsReader):
    """Reads a folder."""


class S3SystemMetricsReader(SystemMetricsReader):
    """Reads below a URL."""
