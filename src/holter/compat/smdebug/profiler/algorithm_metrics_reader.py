"""smdebug's readers of framework metrics: the events of the training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.compat.smdebug.profiler.readers import MetricsReader
from holter.importers.sagemaker.profiler_output import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    def process_info(self) -> dict[str, int | str]:
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


class AlgorithmMetricsReader(MetricsReader[TraceEvent]):
    """Reads framework metrics."""

    _EVENTS = True

    def _read(
        self, start: int, end: int | None, event_type: str | None, suffixes: Sequence[str] | None
    ) -> list[TraceEvent]:
        rows = self.source.events(start, end, suffixes)
        columns = {name: rows[name].tolist() for name in _COLUMNS}
        columns["suffix"] = [FILE_TYPES[suffix] for suffix in columns["suffix"]]
        return [TraceEvent(*row) for row in zip(*(columns[name] for name in _COLUMNS), strict=True)]

    def get_all_event_parsers(self) -> list[EventParser]:
        """Return one parser for each kind of file."""
        return [EventParser(type_, self, suffix) for suffix, type_ in FILE_TYPES.items()]


class LocalAlgorithmMetricsReader(AlgorithmMetricsReader):
    """Reads a folder."""


class S3AlgorithmMetricsReader(AlgorithmMetricsReader):
    """Reads below a URL."""
