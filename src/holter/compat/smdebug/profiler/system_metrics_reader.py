"""smdebug's readers of system metrics."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holter.compat.smdebug.profiler.readers import MetricsReader
from holter.compat.smdebug.profiler.utils import TimeUnits

if TYPE_CHECKING:
    from collections.abc import Sequence

_log = logging.getLogger(__name__)
_COLUMNS = ("type", "name", "dimension", "value", "node", "time")


@dataclass(frozen=True, slots=True)
class ProfilerSystemEvents:
    """One reading; `timestamp` in seconds since the epoch."""

    type: str
    name: str | None
    dimension: str
    value: float
    node_id: str
    timestamp: float


class SystemMetricsReader(MetricsReader):
    """Reads system metrics."""

    def get_events(
        self,
        start_time: float,
        end_time: float | None = None,
        unit: TimeUnits = TimeUnits.MICROSECONDS,
        event_type: str | None = None,
        file_suffix_filter: Sequence[str] | None = None,
    ) -> list[ProfilerSystemEvents]:
        """Return the readings with start_time <= time <= end_time.

        Args:
            start_time: Since the epoch.
            end_time: The same; all that there is when not given.
            unit: What both count.
            event_type: Only cpu, gpu, memory, i/o or network.
            file_suffix_filter: Without meaning here, as in smdebug.
        """
        rows = self.source.readings(*self._asked(start_time, end_time, unit))
        self._done()
        found = [
            ProfilerSystemEvents(type_, name, dimension, value, node, time / 1e6)
            for type_, name, dimension, value, node, time in zip(
                *(rows[name].tolist() for name in _COLUMNS), strict=True
            )
        ]
        return [event for event in found if event_type in (None, event.type)]

    def get_events_by_step(
        self,
        start_step: int,
        end_step: int,
        event_type: str | None = None,
        file_suffix_filter: Sequence[str] | None = None,
    ) -> list[ProfilerSystemEvents]:
        """Return readings between the first events of two steps; none when a step is not known."""
        asked = self.steps_as_time(start_step, end_step)
        if asked is None:
            _log.info("no event of step %s or %s in %s", start_step, end_step, self.path)
            return []
        return self.get_events(*asked, event_type=event_type)


class LocalSystemMetricsReader(SystemMetricsReader):
    """Reads a folder."""


class S3SystemMetricsReader(SystemMetricsReader):
    """Reads below a URL."""
