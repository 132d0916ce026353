"""`PandasFrame`: readings and events as data frames of pandas."""

from __future__ import annotations

import calendar
import re
import time as clock
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.running import of_largest, sums, times_at, times_during
from holter.compat.smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader
from holter.compat.smdebug.profiler.readers import step_of
from holter.compat.smdebug.profiler.system_metrics_reader import SystemMetricsReader
from holter.frame import optional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from holter.schema.table import Table

_FORMAT = "%Y-%m-%dT%H:%M:%S"
_STEP = "Step:ModeKeys"


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
            scan_interval: Without meaning here: nothing is read in slices.

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
        return self._system(0, None, selected_system_metrics)

    def get_all_framework_metrics(self, selected_framework_metrics: Sequence[str] = ()) -> Any:
        """Return all events, or those whose name or phase is named."""
        return self._framework(0, None, selected_framework_metrics)

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
        nothing = ["nothing that has this name"]
        system = self._system(
            start_time_us, end_time_us, selected_system_metrics if get_system_metrics else nothing
        )
        framework = self._framework(
            start_time_us, end_time_us, selected_framework_metrics if get_framework_metrics else nothing
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
        framework = self._framework(0, None, ())
        framework = framework[framework["step"].between(start_step, end_step)].reset_index(drop=True)
        if framework.empty:
            return self._system(0, -1, ()), framework
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
        events = self._events(selected_framework_metrics)
        moments = [self.convert_datetime_to_timestamp(moment) for moment in timestep_list]
        amount = (events["end"] - events["start"]) * times_at(events["start"], events["end"], moments)
        steps = _is_step(events)
        phases = sums(events["phase"][~steps].tolist(), amount[~steps].tolist())
        return (
            of_largest(phases),
            sums(events["name"][~steps].tolist(), amount[~steps].tolist()),
            sums(events["phase"][steps].tolist(), amount[steps].tolist()),
        )

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
        events = self._events(selected_framework_metrics)
        events = events.where(~_is_step(events))
        begins, ends = (
            [self.convert_datetime_to_timestamp(moment) for moment in given]
            for given in (begin_timestep_list, end_timestep_list)
        )
        times = times_during(events["start"], events["end"], begins, ends)
        amount = ((events["end"] - events["start"]) * times).tolist()
        by_phase, by_name = (of_largest(sums(events[name].tolist(), amount)) for name in ("phase", "name"))
        return by_phase, by_name

    def get_all_dataloader_metrics(self, selected_framework_metrics: Sequence[str] = ()) -> Any:
        """Return the events of data loaders, or those whose name or phase a regular expression finds."""
        rows = self.framework_reader.source.events()
        patterns = [re.compile(pattern) for pattern in selected_framework_metrics or (r"[Dd]ata[Ll]oader",)]
        wanted = [
            any(pattern.search(name) or pattern.search(phase) for pattern in patterns)
            for name, phase in zip(rows["name"].tolist(), rows["phase"].tolist(), strict=True)
        ]
        rows = rows.where(np.array(wanted, dtype=bool))
        args = rows["args"].tolist()
        return self._frame(
            {
                **self._times(rows),
                "duration_us": rows["end"] - rows["start"],
                "pid": rows["pid"],
                "framework_metric": rows["name"],
                "step": np.array([-1 if (s := step_of(a)) is None else s for a in args], np.int64),
                "worker_id": np.array([_whole(a.get("worker_id")) for a in args], np.int64),
                "num_workers": np.array([_whole(a.get("num_workers")) for a in args], np.int64),
                "pin_memory": np.array([_flag(a.get("pin_memory")) for a in args], object),
                "process": rows["phase"],
                "node_id": rows["node"],
                "start_time_us_since_epoch": rows["start"],
                "end_time_us_since_epoch": rows["end"],
            }
        )

    def convert_datetime_to_timestamp(self, timestamp: str) -> int:
        """Return microseconds since the epoch of a time as the frames write it.

        Raises:
            ValueError: It is none.
        """
        seconds, _, fraction = str(timestamp).rpartition(":")
        try:
            return calendar.timegm(clock.strptime(seconds, _FORMAT)) * 1_000_000 + int(fraction.ljust(6, "0"))
        except ValueError:
            raise ValueError(
                f"{timestamp!r} is no time; expected as in 2023-11-14T22:13:20:000000, UTC"
            ) from None

    def _system(self, start: int, end: int | None, names: Sequence[str]) -> Any:
        self.system_reader.refresh_event_file_list()
        rows = self.system_reader.source.readings(start, end)
        if names:
            rows = rows.where(np.isin(rows["name"].astype(str), list(names)))
        return self._frame(
            {
                "timestamp": _texts(rows["time"]),
                "timestamp_us": rows["time"] - self.start_time,
                "value": rows["value"],
                "system_metric": rows["name"],
                "dimension": rows["dimension"],
                "nodeID": rows["node"],
                "type": rows["type"],
                "timestamp_us_since_epoch": rows["time"],
            }
        )

    def _framework(self, start: int, end: int | None, names: Sequence[str]) -> Any:
        rows = self._events(names, start, end)
        args = rows["args"].tolist()
        own = [
            a.get("layer_name") or a.get("name") or n
            for a, n in zip(args, rows["name"].tolist(), strict=True)
        ]
        return self._frame(
            {
                **self._times(rows),
                "tid": rows["tid"],
                "pid": rows["pid"],
                "framework_metric": np.array(own, object),
                "step": np.array([-1 if (s := step_of(a)) is None else s for a in args], np.int64),
                "bytes": np.array([_whole(a.get("bytes_fetched")) for a in args], np.int64),
                "process": rows["phase"],
                "nodeID": rows["node"],
                "start_time_us_since_epoch": rows["start"],
                "end_time_us_since_epoch": rows["end"],
            }
        )

    def _events(self, names: Sequence[str], start: int = 0, end: int | None = None) -> Table:
        self.framework_reader.refresh_event_file_list()
        rows = self.framework_reader.source.events(start, end)
        if names:
            wanted = list(names)
            rows = rows.where(
                np.isin(rows["name"].astype(str), wanted) | np.isin(rows["phase"].astype(str), wanted)
            )
        return rows

    def _times(self, rows: Table) -> dict[str, Any]:
        first = self.start_time
        return {
            "start_time": _texts(rows["start"]),
            "end_time": _texts(rows["end"]),
            "start_time_us": rows["start"] - first,
            "end_time_us": rows["end"] - first,
        }

    def _frame(self, columns: dict[str, Any]) -> Any:
        frame = optional("pandas").DataFrame(columns).drop_duplicates(ignore_index=True)
        for reader in (self.system_reader, self.framework_reader):
            reader._done()
        return frame


def _is_step(events: Table) -> NDArray[np.bool_]:
    return np.array([phase.startswith(_STEP) for phase in events["phase"].tolist()], dtype=bool)


def _texts(times: NDArray[Any]) -> NDArray[Any]:
    """Return times as smdebug writes them: to the microsecond, UTC."""
    seconds: dict[int, str] = {}
    told = []
    for time in times.tolist():
        whole, rest = divmod(time, 1_000_000)
        if whole not in seconds:
            seconds[whole] = clock.strftime(_FORMAT, clock.gmtime(whole))
        told.append(f"{seconds[whole]}:{rest:06d}")
    return np.array(told, dtype=object)


def _whole(value: Any) -> int:
    try:
        return -1 if value is None else int(value)
    except (TypeError, ValueError):
        return -1


def _flag(value: Any) -> str:
    return "NA" if value is None else "True" if str(value).lower() in ("true", "1") else "False"
