"""`PandasFrame`: readings and events as data frames of pandas."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from holter.analysis.grouping import of_largest, sums
from holter.analysis.intervals import times_at, times_during
from holter.compat.smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader
from holter.compat.smdebug.profiler.analysis.utils import frame_columns
from holter.compat.smdebug.profiler.system_metrics_reader import SystemMetricsReader
from holter.frame import optional

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from holter.schema.table import Table

_STEP = "Step:ModeKeys"
_READ, _BEGAN = "timestamp_us_since_epoch", "start_time_us_since_epoch"
_EPOCH = datetime.fromtimestamp(0, timezone.utc)
_BYTES = 8
"""Of a cell: a number, or where a text lies that many rows share."""
_COPIES = 6
"""Putting pieces together takes so many times the room of what comes out, as measured."""


class PandasFrame:
    """What was profiled, as frames.

    Times are microseconds. Columns `…_us` count from the first file of readings, or of events where there are
    none; `…_us_since_epoch` from the epoch.
    """

    def __init__(
        self, path: str, use_in_memory_cache: bool = False, scan_interval: int = 5_000_000_000
    ) -> None:
        """Open a `profiler-output` folder or a job of holter's, by path or URL.

        Args:
            path: Which.
            use_in_memory_cache: Keep what was read.
            scan_interval: Without meaning here: what is read together is bounded by rows, or is a file.

        Raises:
            TrialNotFound: Neither is there.
        """
        self.path = str(path)
        self.system_reader = SystemMetricsReader(self.path, use_in_memory_cache)
        self.framework_reader = AlgorithmMetricsReader(self.path, use_in_memory_cache)
        self._cached: list[Any] = [None, None]

    @property
    def start_time(self) -> int:
        """What the relative times count from, microseconds since the epoch."""
        first = self.system_reader.get_timestamp_of_first_available_file()
        return first or self.framework_reader.get_timestamp_of_first_available_file()

    def get_all_system_metrics(self, selected_system_metrics: Sequence[str] = ()) -> Any:
        """Return all readings, or those of the metrics (column `system_metric`) that are named."""
        return _whole(self.system_metrics_in_pieces(0, None, selected_system_metrics), _READ)

    def get_all_framework_metrics(self, selected_framework_metrics: Sequence[str] = ()) -> Any:
        """Return all events, or those whose name or phase is named."""
        return _whole(self.framework_metrics_in_pieces(0, None, selected_framework_metrics), _BEGAN)

    def get_profiler_data_by_time(
        self,
        start_time_us: int,
        end_time_us: int,
        cache_metrics: bool = False,
        selected_framework_metrics: Sequence[str] = (),
        selected_system_metrics: Sequence[str] = (),
        get_framework_metrics: bool = True,
        get_system_metrics: bool = True,
    ) -> tuple[Any, Any]:
        """Return readings and events of a stretch of time, microseconds since the epoch.

        Args:
            start_time_us: Begin.
            end_time_us: End, which belongs to it.
            cache_metrics: Return what earlier calls found too.
            selected_framework_metrics: Only events whose name or phase is one of these.
            selected_system_metrics: Only metrics of these names.
            get_framework_metrics: Whether events are wanted; without, their frame is empty.
            get_system_metrics: Whether readings are.
        """
        system_end = end_time_us if get_system_metrics else -1
        events_end = end_time_us if get_framework_metrics else -1
        system = _whole(
            self.system_metrics_in_pieces(start_time_us, system_end, selected_system_metrics), _READ
        )
        framework = _whole(
            self.framework_metrics_in_pieces(start_time_us, events_end, selected_framework_metrics), _BEGAN
        )
        if not cache_metrics:
            return system, framework
        pandas = optional("pandas")
        for at, frame in enumerate((system, framework)):
            if self._cached[at] is not None:
                frame = pandas.concat([self._cached[at], frame])
            self._cached[at] = frame.drop_duplicates(ignore_index=True)
        return self._cached[0], self._cached[1]

    def get_profiler_data_by_step(
        self, start_step: int, end_step: int, cache_metrics: bool = False
    ) -> tuple[Any, Any]:
        """Return the events of steps, the last one included, and the readings meanwhile; empty for none."""
        pieces = self.framework_metrics_in_pieces(0, None, ())
        chosen = (piece[piece["step"].between(start_step, end_step)] for piece in pieces)
        framework = _whole(chosen, _BEGAN)
        if framework.empty:
            return _whole(self.system_metrics_in_pieces(0, -1, ()), _READ), framework
        first = int(framework["start_time_us_since_epoch"].min())
        last = int(framework["end_time_us_since_epoch"].max())
        system, _ = self.get_profiler_data_by_time(first, last, cache_metrics, get_framework_metrics=False)
        return system, framework

    def get_framework_metrics_by_timesteps(
        self, timestep_list: Sequence[str] = (), selected_framework_metrics: Sequence[str] = ()
    ) -> tuple[dict[str, float], dict[str, int], dict[str, int]]:
        """Return what ran at some moments; each event counts with its length, once a moment.

        Args:
            timestep_list: Moments, as column `timestamp` has them.
            selected_framework_metrics: Only events whose name or phase is one of these.

        Returns:
            Share by phase, the largest being 1; microseconds by event; microseconds by phase of steps.
        """
        moments = [self.convert_datetime_to_timestamp(moment) for moment in timestep_list]
        phases, names, modes = Counter[str](), Counter[str](), Counter[str]()
        for events in self._events(selected_framework_metrics):
            amount = (events["end"] - events["start"]) * times_at(events["start"], events["end"], moments)
            steps = _is_step(events)
            phases.update(sums(events["phase"][~steps].tolist(), amount[~steps].tolist()))
            names.update(sums(events["name"][~steps].tolist(), amount[~steps].tolist()))
            modes.update(sums(events["phase"][steps].tolist(), amount[steps].tolist()))
        return of_largest(phases), dict(names), dict(modes)

    def get_framework_metrics_by_begin_and_end_timesteps(
        self,
        begin_timestep_list: Sequence[str],
        end_timestep_list: Sequence[str],
        selected_framework_metrics: Sequence[str] = (),
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Return what ran during some stretches of time, without steps themselves.

        Returns:
            Share by phase and share by event, the largest of each being 1.

        Raises:
            ValueError: There are not as many ends as begins, or one is no time.
        """
        begins, ends = (
            [self.convert_datetime_to_timestamp(moment) for moment in given]
            for given in (begin_timestep_list, end_timestep_list)
        )
        by_phase, by_name = Counter[str](), Counter[str]()
        for every in self._events(selected_framework_metrics):
            events = every.where(~_is_step(every))
            times = times_during(events["start"], events["end"], begins, ends)
            amount = ((events["end"] - events["start"]) * times).tolist()
            by_phase.update(sums(events["phase"].tolist(), amount))
            by_name.update(sums(events["name"].tolist(), amount))
        return of_largest(by_phase), of_largest(by_name)

    def get_all_dataloader_metrics(self, selected_framework_metrics: Sequence[str] = ()) -> Any:
        """Return the events of data loaders, or those whose name or phase a regular expression finds."""
        patterns = [re.compile(pattern) for pattern in selected_framework_metrics or (r"[Dd]ata[Ll]oader",)]

        def pieces() -> Iterator[Any]:
            for rows in self._events(()):
                wanted = [
                    any(pattern.search(name) or pattern.search(phase) for pattern in patterns)
                    for name, phase in zip(rows["name"].tolist(), rows["phase"].tolist(), strict=True)
                ]
                yield _frame(frame_columns.loader(rows.where(np.array(wanted, dtype=bool)), self.start_time))

        return _whole(pieces(), _BEGAN)

    def convert_datetime_to_timestamp(self, timestamp: str) -> int:
        """Return microseconds since the epoch of a time as the frames write it.

        Raises:
            ValueError: The value is invalid.
        """
        try:
            moment = datetime.strptime(f"{timestamp}+00:00", "%Y-%m-%dT%H:%M:%S:%f%z")
        except ValueError:
            raise ValueError(
                f"{timestamp!r} is no time; expected as in 2023-11-14T22:13:20:000000, UTC"
            ) from None
        return (moment - _EPOCH) // timedelta(microseconds=1)

    def system_metrics_in_pieces(
        self,
        start_time_us: int = 0,
        end_time_us: int | None = None,
        selected_system_metrics: Sequence[str] = (),
    ) -> Iterator[Any]:
        """Yield readings as frames that fit into memory, one after another; smdebug has not got this.

        Within a frame rows are in the order of time and differ from one another.
        """
        self.system_reader.refresh_event_file_list()
        origin, names = self.start_time, frozenset(selected_system_metrics)
        for rows in self.system_reader.source.readings_in_pieces(start_time_us, end_time_us, names):
            yield _frame(frame_columns.system(rows, origin))
            self.system_reader._done()

    def framework_metrics_in_pieces(
        self,
        start_time_us: int = 0,
        end_time_us: int | None = None,
        selected_framework_metrics: Sequence[str] = (),
    ) -> Iterator[Any]:
        """Yield events as frames that fit into memory, one after another; smdebug has not got this."""
        origin = self.start_time
        for rows in self._events(selected_framework_metrics, start_time_us, end_time_us):
            yield _frame(frame_columns.framework(rows, origin))

    def _events(self, names: Sequence[str], start: int = 0, end: int | None = None) -> Iterator[Table]:
        self.framework_reader.refresh_event_file_list()
        wanted = list(names)
        for rows in self.framework_reader.source.events_in_pieces(start, end):
            if wanted:
                named = np.isin(rows["name"].astype(str), wanted)
                rows = rows.where(named | np.isin(rows["phase"].astype(str), wanted))
            yield rows
            self.framework_reader._done()


def _frame(columns: dict[str, NDArray[Any]]) -> Any:
    return optional("pandas").DataFrame(columns).drop_duplicates(ignore_index=True)


def _whole(pieces: Iterable[Any], order: str) -> Any:
    """Return pieces as one frame in an order; raises `MemoryError` before it would not fit into memory."""
    pandas = optional("pandas")
    found: list[Any] = []
    size = rows = 0
    for piece in pieces:
        if found and piece.empty:
            continue
        found.append(piece)
        rows += len(piece)
        size += _BYTES * piece.size
        free = psutil.virtual_memory().available
        if _COPIES * size > free:
            raise MemoryError(
                f"a frame of more than {rows:,} rows does not fit into memory, {free / 1e9:.1f} GB are "
                "free: name metrics, ask for a stretch of time, or take it piece by piece "
                "(system_metrics_in_pieces, framework_metrics_in_pieces)"
            )
    whole = pandas.concat([one for one in found if not one.empty] or found[:1], ignore_index=True)
    if not whole[order].is_monotonic_increasing:
        whole = whole.sort_values(order, kind="stable", ignore_index=True)
    return whole.drop_duplicates(ignore_index=True) if len(found) > 1 else whole


def _is_step(events: Table) -> NDArray[np.bool_]:
    return np.array([phase.startswith(_STEP) for phase in events["phase"].tolist()], dtype=bool)
