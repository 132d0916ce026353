"""`Evaluator`: evaluates many rules over one job at fixed moments and reads every row once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.steps.steps import StepBuilder
from holter.evaluation.schedule import grid
from holter.evaluation.status import MAX_THINNED, RuleRun
from holter.rules import JobFacts, Lookback, SampleSeries, Window
from holter.rules.engine.lookback import Place, RecentData
from holter.rules.patterns.collections import tested
from holter.rules.sandbox.executor import ProcessLimits, SandboxExecutor
from holter.rules.sandbox.sandboxed_rule import SandboxedRule, runs_in_sandbox
from holter.schema.phases import BREAKDOWN, NO_PROGRESS
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from holter.evaluation.facts import FactsTracker

STEP_PHASES = (*(part for part in BREAKDOWN if part != "other"), "step", "compile")
_PAST = -(2**62)
"""A moment before all rows: rows that were judged before a restart are not late."""
KEYS = {"samples": "metric", "spans": "phase", "events": "kind"}
"""The column that a rule's `reads` filters, by table."""


class Evaluator:
    """Takes rows in any order and evaluates the rules at moments on a fixed grid of the job's time.

    A moment is judged once all rows that ended before it have arrived. So the same data give the same
    findings, whether they arrive at once or over a month.
    """

    def __init__(
        self,
        runs: Sequence[RuleRun],
        facts: FactsTracker,
        *,
        keep_steps: Callable[[Table], None] | None = None,
        steps_done: Mapping[int, int] | None = None,
        judged: int | None = None,
        baselines: Mapping[str, Mapping[str, Table]] | None = None,
        limits: ProcessLimits | None = None,
        executor: Callable[[ProcessLimits], Executor] = SandboxExecutor,
    ) -> None:
        """Start, or continue after `judged`.

        Args:
            runs: The rules.
            facts: The job's facts.
            keep_steps: Stores steps that were computed from spans.
            steps_done: Rank → end of the last step in the store.
            judged: The moment up to which an earlier run judged, ns.
            baselines: Tables of other jobs that rules compare with, by the jobs' names.
            limits: The limits of rules that run in sandbox processes.
            executor: Makes the executors of those.
        """
        self.runs = list(runs)
        self.facts = facts
        self.reads = wanted(self.runs)
        self.judged = facts.start - 1 if judged is None else judged
        self.newest = 0
        """End of the newest row."""
        self.evaluated = 0
        """The number of evaluations of rules."""
        self._resumed = judged
        self._keep_steps = keep_steps
        self._steps_done = dict(steps_done or {})
        self._builder = StepBuilder()
        self._pending: list[Table] = []
        self._known: list[Table] = []
        """Steps from the store that are not due yet."""
        self._baselines = baselines
        own = [run for run in self.runs if not runs_in_sandbox(run.rule)]
        self._recent = RecentData(lookbacks(own))
        self._sandboxed = {
            run.name: SandboxedRule(
                run.name,
                run.rule,
                lookbacks([run]),
                run.state,
                limits=limits,
                executor=executor,
                baselines=baselines,
            )
            for run in self.runs
            if runs_in_sandbox(run.rule) and not run.disabled
        }
        for run in self.runs:
            if run.judged_until is None:
                run.judged_until = facts.start - 1 if judged is None else judged

    @property
    def steps_done(self) -> Mapping[int, int]:
        """Rank → end of its last step in the store."""
        return self._steps_done

    @property
    def late_spans(self) -> int:
        """The number of spans that arrived after their step was computed."""
        return self._builder.late

    def take(self, table: str, rows: Table) -> None:
        """Take rows of a table; steps that come here are in the store already."""
        if not rows.rows:
            return
        ends = rows["time"] + rows["duration"] if "duration" in rows else rows["time"]
        self.newest = max(self.newest, int(ends.max()))
        if table == "spans":
            self._pending.append(rows.where(ends > self._done(rows)) if self._steps_done else rows)
            moves = ~np.isin(rows["phase"], NO_PROGRESS)
            self.facts.spans(rows["rank"][moves], ends[moves])
        elif table == "events":
            self.facts.events(rows)
        elif table == "steps":
            self._known.append(rows)
            return
        self._remember(table, rows, ends)

    def take_series(self, metric: str, place: Place, series: SampleSeries) -> None:
        """Take the readings of one series, in the order of time; faster than rows."""
        self.newest = max(self.newest, int(series.time[-1]))
        resumed = self._resumed
        cut = 0 if resumed is None else int(series.time.searchsorted(resumed, side="right"))
        past = SampleSeries(series.time[:cut], series.value[:cut])
        new = SampleSeries(series.time[cut:], series.value[cut:])
        for part, judged in ((past, _PAST), (new, self.judged)):
            if len(part.time):
                self._recent.add_series(metric, place, part, judged)
                for sandboxed in self._sandboxed.values():
                    sandboxed.add_series(metric, place, part, judged)

    def advance(self, until: int, *, ended: bool = False) -> None:
        """Judge every moment of the grid up to `until`; all rows that ended by then have arrived.

        With `ended` no more rows will arrive, and `until` itself is the last moment.
        """
        until = max(until, self.newest) if ended else until
        self._bring_steps(until)
        for moment in grid(self.facts.start, self.judged, until):
            self._judge(moment)
        if ended:
            self._judge(max(until, self.judged), ended=True)
        starts = [run.judged_until for run in self.runs if run.judged_until is not None and not run.disabled]
        self._recent.forget(self.judged, min([self.judged, *starts]))
        self.facts.forget(self.judged)

    def _judge(self, moment: int, *, ended: bool = False) -> None:
        elapsed = moment - self.facts.start
        due = [run for run in self.runs if not run.disabled and (ended or run.due(moment, elapsed))]
        if not due:  # the usual case in a long job
            self.judged = moment
            return
        job = self.facts.at(moment, ended=ended)
        windows = {run.name: self._window(run, moment, job) for run in due}
        # Sandboxed rules first, so that they run in parallel with the others.
        for run in due:
            if run.name in self._sandboxed:
                self._sandboxed[run.name].start(windows[run.name].start, moment, job)
        for run in due:
            if run.name not in self._sandboxed:
                run.evaluate(windows[run.name])
        for run in due:
            if run.name in self._sandboxed:
                self._take(run, windows[run.name])
        self.evaluated += len(due)
        self.judged = moment

    def _window(self, run: RuleRun, moment: int, job: JobFacts) -> Window:
        start = self.judged if run.judged_until is None else run.judged_until
        return Window(
            self._recent,
            lookback=run.lookback,
            start=start,
            end=moment,
            job=job,
            state=run.state,
            baselines=self._baselines,
        )

    def _take(self, run: RuleRun, window: Window) -> None:
        """Take the result of a sandboxed rule; evaluate a slow rule less often, and stop one that hangs."""
        sandboxed = self._sandboxed[run.name]
        outcome = sandboxed.result()
        if outcome.state is not None:
            run.state = outcome.state
        if outcome.seconds > sandboxed.limits.soft_s:
            run.thinned = min(2 * run.thinned, MAX_THINNED)
        run.take(outcome, window)
        if run.disabled:
            self._sandboxed.pop(run.name).close()

    def close(self) -> None:
        """End the sandbox processes."""
        while self._sandboxed:
            self._sandboxed.popitem()[1].close()

    def _bring_steps(self, until: int) -> None:
        """Add the steps that ended by `until`: those from the store, and those computed from spans."""
        self._known, known = _split(self._known, until)
        self._pending, spans = _split(self._pending, until)
        found = [] if known is None else [known]
        if spans is not None:
            # All spans that ended by then are here, so every step that ended by then is complete.
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
            chosen = tested(rows[KEYS[table]], only.__contains__)
            rows, ends = rows.where(chosen), ends[chosen]
        if self._resumed is None:
            self._add(table, rows, self.judged)
            return
        # Rows that an earlier run judged are past, not late.
        past = ends <= self._resumed
        self._add(table, rows.where(past), _PAST)
        self._add(table, rows.where(~past), self.judged)

    def _add(self, table: str, rows: Table, judged: int) -> None:
        self._recent.add(table, rows, judged)
        for sandboxed in self._sandboxed.values():
            sandboxed.add(table, rows, judged)


def wanted(runs: Sequence[RuleRun]) -> dict[str, frozenset[str] | None]:
    """Return the tables that the rules read, each with its metrics, phases or kinds; None for all."""
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


def lookbacks(runs: Sequence[RuleRun]) -> dict[str, Lookback]:
    """Return how far back rules reach, by `table` or `samples/metric`."""
    keep: dict[str, Lookback] = {}
    for run in runs:
        for text in type(run.rule).reads:
            table = text if text.startswith("samples/") else text.partition("/")[0]
            keep[table] = keep.get(table, Lookback()).joined(run.rule.lookback)
    return keep
