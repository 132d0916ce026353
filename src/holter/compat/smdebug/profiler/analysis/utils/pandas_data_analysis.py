"""`PandasFrameAnalysis`: statistics of the frames that `PandasFrame` makes."""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.jobs.stretches import inside, intervals
from holter.analysis.machine.utilization import RANGES, in_ranges
from holter.frame import optional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.schema.table import Table

_log = logging.getLogger(__name__)
_STEP = "Step:ModeKeys"
_SPAN = {"start_time_us": "min", "end_time_us": "max"}
_BUSY = {"cpu": "CPUUtilization", "gpu": "GPUUtilization"}
"""Of a device's metrics, the one that says how busy it was."""


class StatsBy(Enum):
    """What statistics are made of."""

    TRAINING_PHASE = "training_phase"
    FRAMEWORK_METRICS = "framework_metric"
    PROCESS = "process"


class Resource(Enum):
    """What is used of a machine."""

    CPU = "cpu"
    GPU = "gpu"
    MEMORY = "memory"
    IO = "i/o"
    NETWORK = "network"


class JobStatistics(dict[str, int | float | None]):
    """Numbers of a job by name, printed as a table of one row."""

    def __str__(self) -> str:
        return optional("pandas").DataFrame([self]).to_string(index=False)  # type: ignore[no-any-return]

    def _repr_html_(self) -> str:
        return optional("pandas").DataFrame([self]).to_html(index=False)  # type: ignore[no-any-return]


class PandasFrameAnalysis:
    """Statistics of readings and events. The frames given are not changed."""

    def __init__(self, system_df: Any, framework_df: Any) -> None:
        """Take frames as `PandasFrame` returns them.

        Events without a step get the step that encloses them, if one does.
        """
        self.system_df = system_df.copy()
        self.framework_df = framework_df.copy()
        self.framework_df["duration_us"] = framework_df["end_time_us"] - framework_df["start_time_us"]
        self._enclose()

    def _enclose(self) -> None:
        frame = self.framework_df
        steps = self._steps().sort_values("start_time_us")
        missing = (frame["step"] == -1).to_numpy()
        if steps.empty or not missing.any():
            return
        start, end = (frame[name].to_numpy()[missing] for name in ("start_time_us", "end_time_us"))
        at = np.searchsorted(steps["start_time_us"].to_numpy(), start, side="right") - 1
        found = (at >= 0) & (end <= steps["end_time_us"].to_numpy()[np.maximum(at, 0)])
        number = frame["step"].to_numpy(copy=True)
        number[missing] = np.where(found, steps["step"].to_numpy()[np.maximum(at, 0)], -1)
        frame["step"] = number

    def _steps(self) -> Any:
        """Return steps by phase and number: from the earliest begin of a worker to the latest end."""
        frame = self.framework_df
        steps = frame[frame["process"].str.startswith(_STEP, na=False)]
        return steps.groupby(["process", "step"], as_index=False).agg(_SPAN)

    def get_job_statistics(self) -> JobStatistics:
        """Return when the job and its training loop began and ended, microseconds, and their shares, percent.

        Of a job without a step in mode TRAIN or GLOBAL, what depends on its loop is None.
        """
        times = [self.system_df["timestamp_us"]] if len(self.system_df) else []
        if len(self.framework_df):
            times += [self.framework_df["start_time_us"], self.framework_df["end_time_us"]]
        if not times:
            _log.warning("there is neither a reading nor an event: nothing is known of this job")
            return JobStatistics()
        begin, end = min(int(t.min()) for t in times), max(int(t.max()) for t in times)
        steps = self._steps()
        steps = steps[steps["process"].isin([f"{_STEP}.TRAIN", f"{_STEP}.GLOBAL"])]
        start = stop = before = loop = after = None
        if steps.empty:
            _log.warning("no step of mode TRAIN or GLOBAL: the training loop is not known")
        else:
            start, stop = int(steps["start_time_us"].min()), int(steps["end_time_us"].max())
            before, loop, after = start - begin, stop - start, end - stop
        parts = {"initialization": before, "training_loop": loop, "finalization": after}
        whole = max(end - begin, 1)
        return JobStatistics(
            start_time=begin,
            end_time=end,
            job_duration=end - begin,
            training_loop_start=start,
            training_loop_end=stop,
            training_loop_duration=loop,
            initialization=before,
            finalization=after,
            **{f"{name}_%": None if us is None else 100.0 * us / whole for name, us in parts.items()},
        )

    def get_step_statistics(self, by: StatsBy = StatsBy.TRAINING_PHASE) -> Any:
        """Return mean, extremes and percentiles of durations, microseconds: of steps, or of events by name.

        None for what is no `StatsBy`.
        """
        if not isinstance(by, StatsBy):
            _log.info("by is %r; expected one of %s", by, ", ".join(map(str, StatsBy)))
            return None
        if by is StatsBy.TRAINING_PHASE:
            rows = self._steps().rename(columns={"process": by.value})
            rows["duration_us"] = rows["end_time_us"] - rows["start_time_us"]
        else:
            rows = self.framework_df
        return _statistics(rows, [by.value], "duration_us", "duration_{}_us")

    def get_utilization_stats(
        self,
        resource: Resource | Sequence[Resource] | None = None,
        by: StatsBy | None = None,
        phase: str | Sequence[str] | None = None,
    ) -> Any:
        """Return statistics of each resource's metrics, by node; for each training phase too, if asked for.

        Args:
            resource: One, several, or all that were read.
            by: `StatsBy.TRAINING_PHASE`: one row a phase.
            phase: Which phases; see `get_training_phase_intervals`.

        Returns:
            `Resource`, `Training_phase` if asked for, `nodeID`, `dimension`, and statistics; None for what is
            no `Resource`, and for a `by` that there is not.
        """
        wanted = list(Resource) if resource is None else resource
        wanted = [wanted] if isinstance(wanted, Resource) else wanted
        if not isinstance(wanted, list) or not all(isinstance(one, Resource) for one in wanted):
            _log.info(
                "resource is %r; expected one of %s, or a list", resource, ", ".join(map(str, Resource))
            )
            return None
        if by not in (None, StatsBy.TRAINING_PHASE):
            _log.info("by is %r; expected StatsBy.TRAINING_PHASE or none", by)
            return None
        rows = self.system_df[self.system_df["type"].isin([one.value for one in wanted])]
        named = rows["dimension"].where(~rows["type"].isin(["memory", "i/o"]), rows["system_metric"])
        network = rows["type"] == "network"
        named = named.where(~network, rows["system_metric"] + " " + rows["dimension"])
        rows = rows.assign(Resource=rows["type"], dimension=named)
        columns = ["Resource", "nodeID", "dimension"]
        if by is not None:
            parts = self._intervals(phase)
            if parts is None:
                return None
            rows = _of_phases(rows, parts)
            columns.insert(1, "Training_phase")
        found = _statistics(rows, columns, "value", "utilization_{}")
        order = {one.value: at for at, one in enumerate(wanted)}
        return found.sort_values("Resource", key=lambda c: c.map(order), kind="stable", ignore_index=True)

    def get_device_usage_stats(
        self,
        device: Resource | Sequence[Resource] | None = None,
        utilization_ranges: Sequence[tuple[float, float]] | None = None,
    ) -> Any:
        """Return how many readings of utilization lie in each range; ends belong to it, the first fits.

        An empty frame for what is no device and no list of ranges.
        """
        pandas = optional("pandas")
        wanted = [Resource.CPU, Resource.GPU] if device is None else device
        wanted = [wanted] if isinstance(wanted, Resource) else wanted
        ranges = list(RANGES) if utilization_ranges is None else utilization_ranges
        sound = isinstance(wanted, list) and all(one in (Resource.CPU, Resource.GPU) for one in wanted)
        if not (sound and isinstance(ranges, list) and ranges and all(len(one) == 2 for one in ranges)):
            _log.info("device %r or utilization_ranges %r cannot be used", device, utilization_ranges)
            return pandas.DataFrame()
        found = []
        for one in wanted:
            rows = self.system_df[self.system_df["dimension"] == _BUSY[one.value]]
            for node, mine in rows.groupby("nodeID"):
                counts = in_ranges(mine["value"].to_numpy(), tuple(ranges))
                found.append({"type": one.value, "nodeID": node, **dict(zip(ranges, counts, strict=True))})
        return pandas.DataFrame(found, columns=["type", "nodeID", *ranges])

    def get_training_phase_intervals(self, phase: str | Sequence[str] | None = None) -> Any:
        """Return the job cut into phases and what lies before, between and after them.

        Args:
            phase: One, or a list; by default all of steps, `Step:ModeKeys…`.

        Returns:
            `start_time_us`, `end_time_us`, `phase`; None for a phase that there is not.
        """
        parts = self._intervals(phase)
        columns = ["start_time_us", "end_time_us", "phase"]
        if parts is None:
            return None
        return optional("pandas").DataFrame(parts.columns).set_axis(columns, axis=1)

    def _intervals(self, phase: str | Sequence[str] | None) -> Table | None:
        frame = self.framework_df
        known = sorted(set(frame["process"]))
        wanted = [one for one in known if one.startswith(_STEP)] if phase is None else phase
        wanted = [wanted] if isinstance(wanted, str) else wanted
        if not isinstance(wanted, list) or not wanted or not set(wanted) <= set(known):
            _log.info("phase is %r; expected one of %s, or a list", phase, ", ".join(known) or "none")
            return None
        rows = frame[frame["process"].isin(wanted)]
        rows = rows.groupby(["process", "step"], as_index=False).agg(_SPAN)
        first = min(int(frame["start_time_us"].min()), *map(int, self.system_df["timestamp_us"][:1]))
        last = max(int(frame["end_time_us"].max()), *map(int, self.system_df["timestamp_us"][-1:]))
        begin, end = (rows[name].to_numpy() for name in ("start_time_us", "end_time_us"))
        return intervals(begin, end, rows["process"].tolist(), first, last)


def _of_phases(rows: Any, parts: Table) -> Any:
    pandas = optional("pandas")
    time = rows["timestamp_us"].to_numpy()
    found = []
    for name in dict.fromkeys(parts["phase"].tolist()):
        mine = rows[inside(time, parts.where(parts["phase"] == name))]
        found.append(mine.assign(Training_phase=name))
    return pandas.concat(found) if found else rows.assign(Training_phase="")


def _statistics(rows: Any, by: list[str], of: str, named: str) -> Any:
    """Return mean, least, greatest and percentiles of a column, a row for each group."""
    grouped = rows.groupby(by, sort=True)[of]
    columns = {"mean": grouped.mean(), "min": grouped.min(), "max": grouped.max()}
    columns |= {f"p{q}": grouped.quantile(q / 100) for q in (50, 95, 99)}
    frame = optional("pandas").DataFrame({named.format(name): column for name, column in columns.items()})
    return frame.reset_index()
