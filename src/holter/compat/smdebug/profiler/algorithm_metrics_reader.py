"""smdebug's readers of framework metrics: the events of the training."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.compat.smdebug.profiler.readers import MetricsReader
from holter.compat.smdebug.profiler.utils import TimeUnits
from holter.importers.profiler_output import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Sequence

_log = logging.getLogger(__name__)

FILE_TYPES = dict(
    zip(
        SUFFIXES,
        (
            "PythontimelineMetrics",
            "DetailedframeworkMetrics",
            "HorovodMetrics",
            "SMDataParallelMetrics",
            "TFProfilerMetrics",
        ),
        strict=True,
    )
)
"""What smdebug calls the events of a file, by the end of its name."""
_COLUMNS = ("start", "end", "name", "phase", "lane", "tid", "pid", "args", "node", "kind", "suffix")


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event. Times in microseconds since the epoch."""

    start_time: int
    end_time: int
    event_name: str
    event_phase: str
    phase_pid: int
    phase_tid: int
    pid: int
    event_args: dict[str, Any]
    node_id: str
    phase: str
    file_type: str

    @property
    def duration(self) -> int:
        """Microseconds it took."""
        return self.end_time - self.start_time

    @property
    def tid(self) -> int:
        """The thread."""
        return self.phase_tid

    @property
    def process_info(self) -> dict[str, Any]:
        """The lane it stands in: its number and its name."""
        return {"id": self.phase_pid, "name": self.event_phase}


@dataclass(frozen=True, slots=True)
class EventParser:
    """The events of one kind of file."""

    type: str
    reader: AlgorithmMetricsReader
    suffix: str

    def get_all_events(self) -> list[TraceEvent]:
        """Return all of them."""
        return self.reader.get_events(0, file_suffix_filter=[self.suffix])


class AlgorithmMetricsReader(MetricsReader):
    """Reads framework metrics."""

    _EVENTS = True

    def get_events(
        self,
        start_time: float,
        end_time: float | None = None,
        unit: TimeUnits = TimeUnits.MICROSECONDS,
        event_type: str | None = None,
        file_suffix_filter: Sequence[str] | None = None,
    ) -> list[TraceEvent]:
        """Return the events that overlap [start_time, end_time].

        Args:
            start_time: Since the epoch.
            end_time: The same; all that there is when not given.
            unit: What both count.
            event_type: Without meaning here, as in smdebug.
            file_suffix_filter: Only of files whose names end so; see `FILE_TYPES`.
        """
        rows = self.source.events(*self._asked(start_time, end_time, unit), file_suffix_filter)
        self._done()
        columns = {name: rows[name].tolist() for name in _COLUMNS}
        columns["suffix"] = [FILE_TYPES[suffix] for suffix in columns["suffix"]]
        return [TraceEvent(*row) for row in zip(*(columns[name] for name in _COLUMNS), strict=True)]

    def get_events_by_step(
        self,
        start_step: int,
        end_step: int,
        event_type: str | None = None,
        file_suffix_filter: Sequence[str] | None = None,
    ) -> list[TraceEvent]:
        """Return events between the first events of two steps; none when a step is not known."""
        asked = self.steps_as_time(start_step, end_step)
        if asked is None:
            _log.info("no event of step %s or %s in %s", start_step, end_step, self.path)
            return []
        return self.get_events(*asked, file_suffix_filter=file_suffix_filter)

    def get_all_event_parsers(self) -> list[EventParser]:
        """Return one parser for each kind of file."""
        return [EventParser(type_, self, suffix) for suffix, type_ in FILE_TYPES.items()]


class LocalAlgorithmMetricsReader(AlgorithmMetricsReader):
    """Reads a folder."""


class S3AlgorithmMetricsReader(AlgorithmMetricsReader):
    """Reads below a URL."""
