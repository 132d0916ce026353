"""Many rules over one job: every row is read once, the same moments are judged live and afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.steps import StepBuilder
from holter.evaluation.moments import grid, spacing
from holter.rules import Lookback, Series, Window
from holter.rules._lookback import Recent
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from holter.evaluation.facts import Facts
    from holter.evaluation.status import RuleRun
    from holter.rules._lookback import Place

STEP_PHASES = (*(part for part in BREAKDOWN if part != "other"), "step", "compile")
KEYS = {"samples": "metric", "spans": "phase", "events": "kind"}
"""The column that narrows a table in a rule's `reads`."""


class Evaluator:
    """Takes rows as they come, in any order; looks at moments on a fixed grid of the job's time.

    A moment is judged once all rows that ended before it are here. So the same data give the same findings,
    whether they come at once or over a month, in whatever pieces.
    """

    def __init__(
        self,
        runs: Sequence[RuleRun],
        facts: Facts,
        *,
        keep_steps: Callable[[Table], None] | None = None,
        steps_done: Mapping[int, int] | None = None,
        judged: int | None = None,
    ) -> None:
        """Start, or go on after `judged`.

        Args:
            runs: The rules.
            facts: The job's facts.
            keep_steps: What to do with steps that were worked out.
            steps_done: Rank → end of the last step that is stored already.
            judged: Up to when all was judged before a restart, ns.
        """
        self.runs = list(runs)
        self.facts = facts
        self.reads = wanted(self.runs)
        self.judged = facts.start - 1 if judged is None else judged
        self.newest = 0
        """End of the newest row."""
        self.looks = 0
        self._resumed = judged
        self._keep_steps = keep_steps
        self._steps_done = dict(steps_done or {})
        self._builder = StepBuilder()
        self._pending: list[Table] = []
        self._known: list[Table] = []
        """Spans, and steps from the store, that are not due yet."""
        self._recent = Recent(_lookbacks(self.runs, self.reads))
        for run in self.runs:
            if run.judged_until is None:
                run.judged_until = facts.start - 1 if judged is None else judged

    @property
    def steps_done(self) -> Mapping[int, int]:
        """Rank → up to when its steps are stored."""
        return self._steps_done

    @property
    def late_spans(self) -> int:
        """Spans that came after their step had been worked out."""
        return self._builder.late

    def take(self, table: str, rows: Table) -> None:
        """Take rows of a table; steps given here are stored already and are not kept again."""
        if not rows.rows:
            return
        ends = rows["time"] + rows["duration"] if "duration" in rows else rows["time"]
        self.newest = max(self.newest, int(ends.max()))
        if table == "spans":
            self._pending.append(rows.where(ends > self._done(rows)) if self._steps_done else rows)
            self.facts.spans(rows["rank"], ends)
        elif table == "events":
            self.facts.events(rows)
        elif table == "steps":
            self._known.append(rows)
            return
        self._remember(table, rows, ends)

    def take_series(self, metric: str, place: Place, series: Series) -> None:
        """Take the readings of one series, in the order of time: the cheaper way for many."""
        self.newest = max(self.newest, int(series.time[-1]))
        resumed = self._resumed
        if resumed is None:
            return self._recent.add_series(metric, place, series, self.judged)
        cut = int(series.time.searchsorted(resumed, side="right"))
        past, new = Series(*(c[:cut] for c in series)), Series(*(c[cut:] for c in series))
        self._recent.add_series(metric, place, past, -(2**62))
        self._recent.add_series(metric, place, new, self.judged)
        return None

    def advance(self, until: int, *, ended: bool = False) -> None:
        """Judge every moment of the grid up to `until`: all rows that ended by then are here.

        With `ended` nothing will come any more: the last moment is `until` itself.
        """
        until = max(until, self.newest) if ended else until
        self._bring_steps(until)
        for moment in grid(self.facts.start, self.judged, until):
            self._look(moment)
        if ended:
            self._look(max(until, self.judged), ended=True)
        starts = [run.judged_until for run in self.runs if run.judged_until is not None and not run.disabled]
        self._recent.forget(self.judged, min([self.judged, *starts]))
        self.facts.forget(self.judged)

    def _look(self, moment: int, *, ended: bool = False) -> None:
        job = self.facts.at(moment, ended=ended)
        elapsed = moment - self.facts.start
        for run in self.runs:
            start = self.judged if run.judged_until is None else run.judged_until
            if run.disabled or not (ended or moment - start >= spacing(run.rule, elapsed)):
                continue
            look = run.rule.lookback
            run.look(Window(self._recent, lookback=look, start=start, end=moment, job=job, state=run.state))
            self.looks += 1
        self.judged = moment

    def _bring_steps(self, until: int) -> None:
        """Bring the steps that ended by `until`: those that are stored, and those worked out from spans."""
        self._known, known = _split(self._known, until)
        self._pending, spans = _split(self._pending, until)
        found = [] if known is None else [known]
        if spans is not None:
            # With all spans that ended by then, every step that ended by then is complete.
            steps = Table.concat([self._builder.feed(spans), self._builder.finish()])
            if self._steps_done:
                steps = steps.where(steps["time"] >= self._done(steps))
            if steps.rows:
                if self._keep_steps is not None:
                    self._keep_steps(steps)
                found.append(steps)
        if found:
            steps = Table.concat(found)
            ends = steps["time"] + steps["duration"]
            order = np.lexsort((steps["rank"], ends))
            steps, ends = steps.where(order), ends[order]
            self.facts.steps(steps if self._resumed is None else steps.where(ends > self._resumed))
            self._remember("steps", steps, ends)

    def _done(self, rows: Table) -> NDArray[np.int64]:
        """Return for each row when the last stored step of its rank ended."""
        ranks, where = np.unique(rows["rank"], return_inverse=True)
        return np.array([self._steps_done.get(int(r), 0) for r in ranks], dtype=np.int64)[where]

    def _remember(self, table: str, rows: Table, ends: Any) -> None:
        only = self.reads.get(table, frozenset[str]())
        if table not in self.reads:
            return
        if only is not None:
            chosen = np.isin(rows[KEYS[table]].astype(str), sorted(only))
            rows, ends = rows.where(chosen), ends[chosen]
        if self._resumed is None:
            self._recent.add(table, rows, self.judged)
            return
        # What a run before this one has judged is past, not late.
        past = ends <= self._resumed
        self._recent.add(table, rows.where(past), -(2**62))
        self._recent.add(table, rows.where(~past), self.judged)


def wanted(runs: Sequence[RuleRun]) -> dict[str, frozenset[str] | None]:
    """Return which tables the rules read, and of each which metrics, phases, or kinds; `None` = all."""
    found: dict[str, frozenset[str] | None] = {}
    for run in runs:
        for text in type(run.rule).reads:
            table, _, only = text.partition("/")
            before = found.get(table, frozenset())
            found[table] = before | {only} if only and table in KEYS and before is not None else None
    return found


def _split(waiting: list[Table], until: int) -> tuple[list[Table], Table | None]:
    """Split rows into those that end later and those that ended by `until`."""
    if not waiting:
        return [], None
    rows = Table.concat(waiting)
    ended = rows["time"] + rows["duration"] <= until
    later = [] if ended.all() else [rows.where(~ended)]
    return later, rows.where(ended) if ended.any() else None


def _lookbacks(runs: Sequence[RuleRun], reads: Mapping[str, Any]) -> dict[str, Lookback]:
    keep: dict[str, Lookback] = {table: Lookback() for table in reads}
    for run in runs:
        for text in type(run.rule).reads:
            table = text if text.startswith("samples/") else text.partition("/")[0]
            keep[table] = keep.get(table, Lookback()).joined(run.rule.lookback)
    return keep
