"""A rule in a sandbox process: it may loop, use all its memory or exit without harm to the evaluation."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holter.rules.engine.judging import Judgement, finite, judge
from holter.rules.engine.lookback import Lookback, Place, RecentData, SampleSeries
from holter.rules.engine.window import Window
from holter.rules.rule import PACKAGE, Rule
from holter.rules.sandbox.executor import Died, ProcessLimits, SandboxExecutor
from holter.rules.sandbox.source import RuleSource
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor, Future

    from holter.rules.engine.job_facts import JobFacts
    from holter.rules.engine.table_json import State

MAX_STATE = 16 * 2**20
"""The most bytes of a rule's state as JSON; a restart has to read it."""


def runs_in_sandbox(rule: Rule) -> bool:
    """Return whether a rule comes from a file or an installed package, and another process can import it.

    A class that was typed at a prompt, or within a function, exists in this process only.
    """
    made = type(rule)
    if hasattr(made, "reference"):
        return True
    if made.__module__.startswith(f"{PACKAGE}.") or made.__module__ == "__main__":
        return False
    module = sys.modules.get(made.__module__)
    return getattr(module, made.__qualname__, None) is made


class SandboxedRule:
    """The evaluator's side of a rule in a sandbox: it sends rows and requests evaluations."""

    def __init__(
        self,
        name: str,
        rule: Rule,
        keep: Mapping[str, Lookback],
        state: State,
        *,
        limits: ProcessLimits | None = None,
        executor: Callable[[ProcessLimits], Executor] = SandboxExecutor,
        baselines: Any = None,
    ) -> None:
        self.limits = limits or ProcessLimits()
        self._opening: tuple[Any, ...] | None = (name, RuleSource.of(rule), dict(keep), state, baselines)
        self._keep = keep
        self._executor = executor(self.limits)
        self._rows: list[tuple[Any, ...]] = []
        self._pending: Future[Judgement] | None = None
        self._deadline = 0.0

    def add(self, table: str, rows: Table, judged: int) -> None:
        """Keep rows for the next evaluation if the rule reads the table."""
        if rows.rows and any(name.partition("/")[0] == table for name in self._keep):
            self._rows.append(("add", table, Table(rows.columns), judged))

    def add_series(self, metric: str, place: Place, series: SampleSeries, judged: int) -> None:
        """Keep the readings of one series for the next evaluation if the rule reads it."""
        if len(series.time) and (f"samples/{metric}" in self._keep or "samples" in self._keep):
            self._rows.append(("add_series", metric, place, series, judged))

    def start(self, start: int, end: int, job: JobFacts) -> None:
        """Start an evaluation; other rules may be evaluated meanwhile."""
        first = self._opening is not None
        self._deadline = time.monotonic() + self.limits.hard_s + (self.limits.start_s if first else 0.0)
        rows, self._rows = self._rows, []
        self._pending = self._executor.submit(_evaluate, self._opening, rows, start, end, job)
        self._opening = None

    def result(self) -> Judgement:
        """Wait for the result, as long as the limits allow."""
        assert self._pending is not None  # noqa: S101
        try:
            return self._pending.result(timeout=max(0.0, self._deadline - time.monotonic()))
        except TimeoutError:
            self.close()
            why = f"it took longer than {self.limits.hard_s:g} s to judge one window"
        except Died as error:
            why = str(error)
        except Exception as error:
            why = f"{type(error).__name__}: {error}" if not isinstance(error, RuntimeError) else str(error)
        self.close()
        return Judgement(error=f"stopped: {why}", fatal=True)

    def close(self) -> None:
        """End the process."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class _RuleHost:
    """The sandbox's side: the rule, its state and the rows of its lookback."""

    def __init__(
        self,
        name: str,
        source: RuleSource,
        keep: Mapping[str, Lookback],
        state: State,
        baselines: Mapping[str, Mapping[str, Table]] | None,
    ) -> None:
        self.name = name
        self.rule = source.made()
        self.recent = RecentData(keep)
        self.state = state
        self.baselines = baselines

    def evaluate(self, rows: list[tuple[Any, ...]], start: int, end: int, job: JobFacts) -> Judgement:
        for method, *given in rows:
            getattr(self.recent, method)(*given)
        window = Window(
            self.recent,
            lookback=self.rule.lookback,
            start=start,
            end=end,
            job=job,
            state=self.state,
            baselines=self.baselines,
        )
        outcome = judge(self.name, self.rule, window, apart=True)
        self.recent.forget(end, end)
        if "MemoryError" in outcome.error:
            return replace(outcome, fatal=True)
        kept = json.dumps(finite(self.state))
        if len(kept) > MAX_STATE:
            error = f"stopped: its state is {len(kept) / 2**20:.0f} MiB; {MAX_STATE // 2**20} MiB are allowed"
            return Judgement(error=error, fatal=True)
        return replace(outcome, state=json.loads(kept))


_hosts: list[_RuleHost] = []


def _evaluate(
    opening: tuple[Any, ...] | None, rows: list[Any], start: int, end: int, job: JobFacts
) -> Judgement:
    """Evaluate a window in the sandbox process; the first call describes the rule."""
    if opening is not None:
        _hosts[:] = [_RuleHost(*opening)]
    return _hosts[0].evaluate(rows, start, end, job)
