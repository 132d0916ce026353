"""`Window`: the input of a rule (recent rows, facts of the job, its state) and the place for its answers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.grouping import groups
from holter.rules.engine.coverage import Coverage, Reason
from holter.rules.engine.job_facts import JobFacts, job_facts, steady, warm
from holter.rules.engine.lookback import Lookback, Place, RecentData, SampleSeries, T, place_of
from holter.schema.table import Table, repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.rules.engine.table_json import State


def _rows(table: str) -> cached_property[Table]:
    return cached_property(lambda window: window._table(table))


class Window:
    """The rows for one evaluation of a rule: new ones ended in `(start, end]`, older ones in its lookback."""

    steps = _rows("steps")
    """The steps within the lookback, warm-up included; see `steady`."""
    spans = _rows("spans")
    """The spans that ended within the lookback."""
    scalars = _rows("scalars")
    """The scalars within the lookback."""
    events = _rows("events")
    """The events within the lookback."""
    tensors = _rows("tensors")
    """The statistics of tensors within the lookback."""
    tensor_values = _rows("tensor_values")
    """Elements of small tensors, histograms and counts of active units within the lookback."""
    kernels = _rows("kernels")
    """The kernels that ended within the lookback; only where they were recorded or imported."""
    launches = _rows("launches")
    """The launches of work on accelerators within the lookback."""
    memory_operations = _rows("memory_operations")
    """Copies and fills by accelerators that ended within the lookback."""
    syncs = _rows("syncs")
    """The times in which the host waited for an accelerator, within the lookback."""
    operators = _rows("operators")
    """Operators of the framework within the lookback."""

    def __init__(
        self,
        recent: RecentData,
        *,
        lookback: Lookback,
        start: int,
        end: int,
        job: JobFacts,
        state: State | None = None,
        baselines: Mapping[str, Mapping[str, Table]] | None = None,
    ) -> None:
        self.start = start
        self.end = end
        self.job = job
        self.state: State = {} if state is None else state
        """The rule's memory between windows; it holds JSON values only."""
        self._details: dict[str, object] | Callable[[], dict[str, object]] = {}
        self.idle = False
        self.points = 0
        self._read: set[str] = set()
        self.lack: Coverage | None = None
        self._recent = recent
        self._lookback = lookback
        self._baselines = baselines or {}

    @classmethod
    def of(
        cls,
        lookback: Lookback | None = None,
        *,
        job: JobFacts | None = None,
        start: int | None = None,
        end: int | None = None,
        state: State | None = None,
        baselines: Mapping[str, Mapping[str, Table]] | None = None,
        **tables: Table,
    ) -> Window:
        """Make a window of whole tables; all rows are new unless `start` is later."""
        recent = RecentData()
        for name, table in tables.items():
            recent.add(name, table, -(2**62))
        ends = [_end(t) for t in tables.values() if t.rows]
        begins = [int(t["time"].min()) for t in tables.values() if t.rows]
        job = job or job_facts(tables.get("steps"), start=min(begins, default=0))
        first = min([job.start, *begins]) - 1
        return cls(
            recent,
            lookback=lookback or Lookback(),
            start=first if start is None else start,
            end=max(ends, default=job.start) if end is None else end,
            job=job,
            state=state,
            baselines=baselines,
        )

    @property
    def details(self) -> dict[str, object]:
        """Statistics that the rule publishes, with or without issues; the last ones are kept."""
        if callable(self._details):
            self._details = self._details()
        return self._details

    @details.setter
    def details(self, details: dict[str, object]) -> None:
        self._details = details

    def hand_over(self, work_out: Callable[[], dict[str, object]]) -> None:
        """Publish `details` that are computed on demand, once after many evaluations.

        They may use `state`, which is then as the last evaluation left it.
        """
        self._details = work_out

    @property
    def handed_over(self) -> dict[str, object] | Callable[[], dict[str, object]]:
        """The details, or the function that computes them."""
        return self._details

    @cached_property
    def samples(self) -> Table:
        """The samples as a table; `series` is faster."""
        rows = [Table.empty("samples")]
        for metric in self._recent.metrics:
            for (node, device), series in self.series(metric).items():
                constant = {"device": device, "metric": metric, "node": node}
                texts = {k: repeated(v, len(series.time)) for k, v in constant.items()}
                columns = {"time": series.time, "value": series.value, **texts}
                rows.append(Table({name: columns[name] for name in rows[0].columns}))
        return Table.concat(rows)

    def spans_of(self, phase: str, *, new: bool = False) -> Table:
        """Return the spans of one phase in the lookback, or only new ones; computed once for all rules."""
        self._read.add("spans")
        since = self.start if new else self._since

        def answer() -> dict[str, Table]:
            rows = self._recent.rows("spans", since, self.end)
            return {phase: rows.where(where) for (phase,), where in groups(rows["phase"]).items()}

        found = self._recent.shared(("spans by phase", since, self.end), self.end, answer)
        return found[phase] if phase in found else Table.empty("spans")

    def new(self, table: str) -> Table:
        """Return the rows that are new in this window."""
        self._read.add(table)
        return self._recent.rows(table, self.start, self.end)

    def answered(self, question: str, answer: Callable[[], T]) -> T:
        """Return an answer about new rows; computed once for all rules with the same new rows."""
        return self._recent.shared((question, self.start, self.end), self.end, answer)

    def baseline(self, name: str) -> Mapping[str, Table] | None:
        """Return the tables of another job to compare with, or None."""
        return self._baselines.get(name)

    def series(
        self, metric: str, *, since: int | None = None, new: bool = False
    ) -> dict[Place, SampleSeries]:
        """Return a metric's readings by node and device, in order of time, finite ones only.

        Args:
            metric: A name of `holter.schema.metrics`.
            since: Only those after it.
            new: Only those that are new in this window.
        """
        last = None if new else self._lookback.readings
        found = self._recent.series(metric, self.start if new else self._since, self.end, last)
        if since is None or all(one.time[0] > since for one in found.values()):
            return found
        later = {}
        for place, (time, value) in found.items():
            at = int(time.searchsorted(since, side="right"))
            if at < len(time):
                later[place] = SampleSeries(time[at:], value[at:])
        return later

    def seen(self, metric: str, *, since: int | None = None) -> dict[Place, int]:
        """Count all readings of a metric up to now, kept in `state`; call it once in each window."""
        counts: dict[str, int] = self.state.setdefault("seen", {}).setdefault(metric, {})
        for (node, device), series in self.series(metric, since=since, new=True).items():
            key = f"{node}/{device}"
            counts[key] = counts.get(key, 0) + len(series.time)
        return {place_of(key): count for key, count in counts.items()}

    @cached_property
    def steady(self) -> Table:
        """The steps that show the speed of training: no warm-up, compilation, evaluation or checkpoint."""
        return self._derived("steady", lambda: steady(self.warm))

    @cached_property
    def warm(self) -> Table:
        """The steps after warm-up; ranks that still warm up are left out."""
        return self._derived("warm", lambda: warm(self.steps, self.job))

    def insufficient(
        self, reason: Reason, text: str, have: float | None = None, need: float | None = None
    ) -> None:
        """Report that the rule could not judge (some of) this window, and the missing data in words."""
        self.lack = self.lack or Coverage(reason, text, have, need)

    def too_few(self, text: str, have: float, need: float) -> None:
        """Report that there are too few readings or steps to judge."""
        self.insufficient("too_few_points", text, have, need)

    def unchanged(self, table: str) -> bool:
        """Return whether a table has no new rows, so that another evaluation cannot find anything new.

        Such an evaluation does not count, except at the job's end.
        """
        self.idle = not self.job.ended and not self.new(table).rows
        return self.idle

    def judged(self, points: int) -> None:
        """Report that the rule judged, and the number of readings or steps."""
        self.points += points

    @property
    def steps_read(self) -> tuple[int, int] | None:
        """The first and the last step among the new rows of the tables that the rule read."""
        found = [steps for table in sorted(self._read) if (steps := self._steps_of(table)) is not None]
        return (min(a for a, _ in found), max(b for _, b in found)) if found else None

    @property
    def tensors_read(self) -> int:
        """The number of tensors among the new rows of the tables that the rule read."""
        return max((self._tensors_of(t) for t in self._read & {"tensors", "tensor_values"}), default=0)

    def _steps_of(self, table: str) -> tuple[int, int] | None:
        def answer() -> tuple[int, int] | None:
            rows = self._recent.rows(table, self.start, self.end)
            steps = rows["step"] if rows.rows and "step" in rows else np.empty(0, dtype=np.int64)
            steps = steps[steps >= 0]
            return (int(steps.min()), int(steps.max())) if len(steps) else None

        return self._recent.shared(("steps of", table, self.start, self.end), self.end, answer)

    def _tensors_of(self, table: str) -> int:
        def answer() -> int:
            return len(set(self._recent.rows(table, self.start, self.end)["name"].tolist()))

        return self._recent.shared(("tensors of", table, self.start, self.end), self.end, answer)

    @property
    def span(self) -> dict[str, int]:
        """The time of the lookback, for an issue."""
        return {"time_start": self._since, "time_end": self.end}

    @property
    def _since(self) -> int:
        seconds = self._lookback.seconds
        return self.start if seconds is None else self.end - round(seconds * 1e9)

    def _derived(self, name: str, work_out: Callable[[], Table]) -> Table:
        """Compute a table once for all rules with the same lookback at the same moment."""
        last = self._lookback.steps
        # The facts of the job belong to the moment, but a test may give a rule other facts.
        question = (name, self._since if last is None else None, self.end, last, id(self.job))
        return self._recent.shared(question, self.end, work_out)

    def _table(self, name: str) -> Table:
        self._read.add(name)
        return self._recent.rows(
            name, self._since, self.end, self._lookback.steps if name == "steps" else None
        )


def _end(table: Table) -> int:
    ends = table["time"] + table["duration"] if "duration" in table else table["time"]
    return int(ends.max())
