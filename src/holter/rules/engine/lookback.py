"""The recent rows of a job, and how far back the windows of a rule reach."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from holter.analysis.grouping import groups
from holter.rules.engine.row_buffer import RowBuffer, last_of
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookback:
    """How far back a window reaches; without any value it holds new rows only."""

    seconds: float | None = None
    """Seconds before the window's end within which rows ended."""
    steps: int | None = None
    """The number of last steps of each rank, in table `steps`."""
    readings: int | None = None
    """The number of last readings of each series of samples."""

    def joined(self, other: Lookback) -> Lookback:
        """Return the smallest lookback that contains both."""

        def farther(name: str) -> Any:
            given = [getattr(one, name) for one in (self, other) if getattr(one, name) is not None]
            return max(given, default=None)

        return Lookback(seconds=farther("seconds"), steps=farther("steps"), readings=farther("readings"))


class SampleSeries(NamedTuple):
    """The readings of one metric of one device, in the order of time; every value is finite."""

    time: NDArray[np.int64]
    value: NDArray[np.float64]

    @property
    def span(self) -> dict[str, int]:
        """The times of the first and the last reading, for an issue."""
        return {"time_start": int(self.time[0]), "time_end": int(self.time[-1])}


Place = tuple[str, str]
"""Node and device; the device is empty for the whole node."""


def place_of(key: str) -> Place:
    """Return the place of `node/device`, as rules write it in their states."""
    node, _, device = key.rpartition("/")
    return node, device


class RecentData:
    """Samples as series, other tables as rows, both ordered by their due time.

    A row is due when it ended. A row that arrives after that moment was judged is due at the next moment, so
    every rule counts it once and in the same window.
    """

    def __init__(self, keep: Mapping[str, Lookback] | None = None) -> None:
        self._keep = keep
        """The lookback of each `table` or `samples/metric`; without it no row is removed."""
        self._series: dict[str, dict[Place, RowBuffer]] = defaultdict(dict)
        self._rows: dict[str, RowBuffer] = {}
        self._asked: dict[tuple[Any, ...], Any] = {}
        """Cached answers about `_moment`: rules that judge the same moment ask the same questions."""
        self._moment: int | None = None

    def add(self, table: str, rows: Table, judged: int) -> None:
        """Add rows; `judged` is the moment up to which all rules have judged."""
        if not rows.rows:
            return
        self._asked.clear()
        due = rows["time"] if "duration" not in rows else rows["time"] + rows["duration"]
        due = np.maximum(due, judged + 1)
        if table != "samples":
            self._rows.setdefault(table, RowBuffer()).add(due, dict(rows.columns))
            return
        finite = np.isfinite(rows["value"])
        rows, due = rows.where(finite), due[finite]
        for (metric, *place), where in groups(rows["metric"], rows["node"], rows["device"]).items():
            self._put(metric, (place[0], place[1]), due[where], rows["value"][where])

    def add_series(self, metric: str, place: Place, series: SampleSeries, judged: int) -> None:
        """Take in the readings of one series; `judged` as for `add`."""
        self._asked.clear()
        finite = np.isfinite(series.value)
        self._put(metric, place, np.maximum(series.time, judged + 1)[finite], series.value[finite])

    def _put(self, metric: str, place: Place, due: NDArray[np.int64], value: NDArray[np.float64]) -> None:
        if len(due) and (self._keep is None or self._needed(metric) is not None):
            self._series[metric].setdefault(place, RowBuffer()).add(due, {"value": value})

    def series(
        self, metric: str, since: int, until: int, last: int | None = None
    ) -> dict[Place, SampleSeries]:
        """Return a metric's readings after `since` up to `until`, or the `last` ones up to it."""
        if metric not in self._series:
            return {}

        def answer() -> dict[Place, SampleSeries]:
            found: dict[Place, SampleSeries] = {}
            due = time = np.empty(0, dtype=np.int64)
            low = high = 0
            for place, kept in sorted(self._series[metric].items()):
                # Devices of one node are read together, so their series often have the same times.
                if not np.array_equal(kept.due, due):
                    due = kept.due
                    low, high = kept.range(since, until, last)
                    time = due[low:high]
                if low < high:
                    found[place] = SampleSeries(time, kept.columns["value"][low:high])
            return found

        return self.shared((metric, since, until, last), until, answer)

    def shared(self, question: tuple[Any, ...], moment: int, answer: Callable[[], T]) -> T:
        """Return the cached answer to a question at this moment, or compute and cache it."""
        if moment != self._moment:
            self._asked.clear()
            self._moment = moment
        if question not in self._asked:
            self._asked[question] = answer()
        found: T = self._asked[question]
        return found

    def _needed(self, metric: str) -> Lookback | None:
        keep = self._keep or {}
        return keep.get(f"samples/{metric}", keep.get("samples"))

    @property
    def metrics(self) -> list[str]:
        """The metrics of which there are readings."""
        return sorted(self._series)

    def rows(self, table: str, since: int, until: int, last: int | None = None) -> Table:
        """Return a table's rows that were due after `since` up to `until`, or each rank's `last` rows."""
        kept = self._rows.get(table)
        if kept is None:
            return Table.empty(table)
        question = (table, since if last is None else None, until, last)

        def answer() -> Table:
            low, high = kept.range(question[1], until)
            found = Table({name: column[low:high] for name, column in kept.columns.items()})
            return found if last is None else last_of_each_rank(found, last)

        return self.shared(question, until, answer)

    def has(self, table: str) -> bool:
        """Return whether there was ever a row of a table."""
        return bool(self._series) if table == "samples" else table in self._rows

    def forget(self, until: int, floor: int) -> None:
        """Remove the rows that no window after `until` will hold; rows due after `floor` are still new."""
        if self._keep is None:
            return
        self._asked.clear()
        for metric, places in self._series.items():
            need = self._needed(metric) or Lookback()
            for kept in places.values():
                kept.forget(until, _since(need, until, floor), need.readings)
        for table, kept in self._rows.items():
            need = self._keep.get(table, Lookback())
            if table == "steps" and need.steps is not None:
                kept.forget_steps(until, _since(need, until, floor), need.steps)
            else:
                kept.forget(until, _since(need, until, floor), None)


def last_of_each_rank(steps: Table, last: int) -> Table:
    """Keep the `last` steps of each rank; the rows are in the order of time."""
    return steps if steps.rows <= last else steps.where(last_of(steps["rank"], last))


def _since(need: Lookback, until: int, floor: int) -> int:
    return min(floor, until - round((need.seconds or 0.0) * 1e9))
