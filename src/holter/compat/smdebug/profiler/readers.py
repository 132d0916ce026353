"""What smdebug's readers of metrics have in common: times, files, refreshing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Generic, TypeVar

from holter.compat.smdebug.profiler.sources import source
from holter.compat.smdebug.profiler.utils import TimeUnits
from holter.importers.kineto.threads import whole

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

_log = logging.getLogger(__name__)
Event = TypeVar("Event")


class MetricsReader(Generic[Event]):
    """Reads a `profiler-output` folder or a job of holter's."""

    _EVENTS = False

    def __init__(self, path: str, use_in_memory_cache: bool = False) -> None:
        """Open a path or URL; `use_in_memory_cache` keeps what was read.

        Raises:
            TrialNotFound: Neither is there.
        """
        self.path = str(path)
        self.source = source(self.path)
        self._cached = use_in_memory_cache

    @property
    def skipped(self) -> Counter[str]:
        """What of the files could not be read, counted by why."""
        return self.source.skipped

    def refresh_event_file_list(self) -> None:
        """List the files anew."""
        self.source.refresh()

    def get_timestamp_of_first_available_file(self) -> int:
        """Return the time of the first file, microseconds since the epoch; 0 without files."""
        return self.source.available(self._EVENTS)[0]

    def get_timestamp_of_latest_available_file(self) -> int:
        """Return the time of the last file, microseconds since the epoch; 0 without files."""
        return self.source.available(self._EVENTS)[1]

    def get_events(
        self,
        start_time: float,
        end_time: float | None = None,
        unit: TimeUnits = TimeUnits.MICROSECONDS,
        event_type: str | None = None,
        file_suffix_filter: Sequence[str] | None = None,
    ) -> list[Event]:
        """Return what happened in [start_time, end_time]: readings in it, or events that overlap it.

        Args:
            start_time: Since the epoch.
            end_time: The same; all that there is when not given.
            unit: What both count.
            event_type: Only cpu, gpu, memory, i/o or network; without meaning for events, as in smdebug.
            file_suffix_filter: Only of files whose names end so, see `FILE_TYPES`; without meaning for
                readings, as in smdebug.
        """
        found = self._read(*self._asked(start_time, end_time, unit), event_type, file_suffix_filter)
        self._done()
        return found

    def get_events_by_step(
        self,
        start_step: int,
        end_step: int,
        event_type: str | None = None,
        file_suffix_filter: Sequence[str] | None = None,
    ) -> list[Event]:
        """Return what happened between the first events of two steps; nothing when a step is not known."""
        asked = self.steps_as_time(start_step, end_step)
        if asked is None:
            _log.info("no event of step %s or %s in %s", start_step, end_step, self.path)
            return []
        return self.get_events(*asked, event_type=event_type, file_suffix_filter=file_suffix_filter)

    def _read(
        self, start: int, end: int | None, event_type: str | None, suffixes: Sequence[str] | None
    ) -> list[Event]:
        """Return what a range of microseconds holds."""
        raise NotImplementedError

    def _asked(self, start: float, end: float | None, unit: TimeUnits) -> tuple[int, int | None]:
        """Return a range in microseconds; asks for newer files when it reaches beyond those known."""
        if not isinstance(unit, TimeUnits):
            raise TypeError(f"unit is {unit!r}; expected one of {', '.join(map(str, TimeUnits))}")
        until = None if end is None else unit.microseconds(end)
        if not self.source.ended and (until is None or until >= self.source.available(self._EVENTS)[1]):
            self.source.refresh()
        return unit.microseconds(start), until

    def _done(self) -> None:
        if not self._cached:
            self.source.forget()

    def steps_as_time(self, start_step: int, end_step: int) -> tuple[int, int] | None:
        """Return from the first event of one step to just before the first one of another, microseconds."""
        first: dict[int, int] = {}
        for rows in self.source.events_in_pieces():
            for begin, args in zip(rows["start"].tolist(), rows["args"].tolist(), strict=True):
                step = step_of(args)
                if step is not None:
                    first[step] = min(begin, first.get(step, begin))
            self._done()
        if start_step not in first or end_step not in first:
            return None
        return first[start_step], first[end_step] - 1


def step_of(args: dict[str, object]) -> int | None:
    """Return the step that an event tells."""
    return whole(args.get("step_num"))
