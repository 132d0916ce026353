"""`PT_dataloader_analysis`: what PyTorch's data loaders did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.analysis.loading.loader_durations import OUTLIER
from holter.compat.smdebug.profiler.analysis.notebook_utils.timeline_charts import TimelineCharts
from holter.frame import optional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.compat.smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame

_COLUMNS = ["start_time", "end_time", "duration_us", "worker_id"]


class PT_dataloader_analysis:  # noqa: N801 - smdebug's name
    """Prints what it finds, and returns what took at least twice the median, longest first."""

    def __init__(self, pandas_frame: PandasFrame) -> None:
        """Take the events of data loaders out of a `PandasFrame`."""
        self.pandas_frame = pandas_frame
        frame = pandas_frame.get_all_dataloader_metrics()
        name, process = frame["framework_metric"], frame["process"]
        self.getnext = frame[name.str.endswith("DataLoaderIter::GetNext")]
        self.initializations = frame[name.str.contains("DataLoaderIter") & name.str.endswith("__init__")]
        self.workers = frame[(process == "DataLoaderWorker") | (name == "DataLoaderWorker")]

    def analyze_dataloaderIter_initialization(self) -> Any:  # noqa: N802 - smdebug's name
        """Print how iterators were made, by their type; returns the slow ones."""
        if self._absent(self.initializations, "initializations of iterators"):
            return None
        slow = []
        for name, mine in self.initializations.groupby("framework_metric"):
            settings = f"pin_memory {_all(mine['pin_memory'])}, num_workers {_all(mine['num_workers'])}"
            print(f"{name.removesuffix('.__init__')}: {settings}")
            slow.append(self._outliers(mine, "initializations"))
        found = [one for one in slow if one is not None]
        return optional("pandas").concat(found, ignore_index=True) if found else None

    def analyze_dataloaderWorkers(self) -> Any:  # noqa: N802 - smdebug's name
        """Print how long workers lived; returns the long-lived ones."""
        return None if self._absent(self.workers, "workers") else self._outliers(self.workers, "workers")

    def analyze_dataloader_getnext(self) -> Any:
        """Print how long batches were waited for; returns the long waits."""
        absent = self._absent(self.getnext, "GetNext calls")
        return None if absent else self._outliers(self.getnext, "GetNext calls")

    def analyze_batchtime(
        self,
        start_timestamp: int | None = None,
        end_timestamp: int | None = None,
        select_events: Sequence[str] = (".*",),
        select_dimensions: Sequence[str] = (".*",),
    ) -> Any:
        """Print the time from one GetNext call to the next of the same process; returns the long ones.

        Args:
            start_timestamp: Only from this time on, microseconds since the epoch.
            end_timestamp: Only up to this time.
            select_events: Without meaning here, as are the dimensions.
            select_dimensions: The same.

        Returns:
            `previous_batch_start`, `start_time`, `BatchTime_in_seconds`, `worker_id`; None without any.
        """
        begin = "start_time_us_since_epoch"
        low = 0 if start_timestamp is None else start_timestamp
        high = 2**62 if end_timestamp is None else end_timestamp
        calls = self.getnext[self.getnext[begin].between(low, high)].sort_values(begin)
        groups = calls.groupby(["node_id", "pid"])
        calls = calls.assign(
            previous_batch_start=groups["start_time"].shift(1),
            BatchTime_in_seconds=(calls[begin] - groups[begin].shift(1)) / 1e6,
        ).dropna(subset=["BatchTime_in_seconds"])
        if self._absent(calls, "two GetNext calls of one process"):
            return None
        median = calls["BatchTime_in_seconds"].median()
        print(f"{len(calls)} batches, median {median:.6g} s each")
        slow = calls[(calls["BatchTime_in_seconds"] >= OUTLIER * median) & (median > 0)]
        columns = ["previous_batch_start", "start_time", "BatchTime_in_seconds", "worker_id"]
        slow = slow.sort_values("BatchTime_in_seconds", ascending=False, kind="stable")[columns]
        return slow.reset_index(drop=True) if len(slow) else None

    def plot_the_window(
        self,
        start_timestamp: int,
        end_timestamp: int,
        select_events: Sequence[str] = (".*",),
        select_dimensions: Sequence[str] = (".*",),
    ) -> TimelineCharts:
        """Return charts of a stretch of time, microseconds since the epoch."""
        return TimelineCharts(
            self.pandas_frame.system_reader,
            self.pandas_frame.framework_reader,
            starttime=start_timestamp,
            endtime=end_timestamp,
            select_dimensions=select_dimensions,
            select_events=select_events,
        )

    def _absent(self, frame: Any, what: str) -> bool:
        if frame.empty:
            print(f"{what} are not present in {self.pandas_frame.path}")
        return bool(frame.empty)

    def _outliers(self, frame: Any, what: str) -> Any:
        took = frame["duration_us"]
        print(f"{len(frame)} {what}: median {took.median():.0f} µs, longest {took.max()} µs")
        slow = frame[(took >= OUTLIER * took.median()) & (took.median() > 0)]
        slow = slow.sort_values("duration_us", ascending=False, kind="stable")[_COLUMNS]
        return slow.reset_index(drop=True) if len(slow) else None


def _all(column: Any) -> str:
    return " or ".join(map(str, dict.fromkeys(column.tolist())))
