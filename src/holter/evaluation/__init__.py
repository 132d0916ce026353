"""Evaluates the rules of a job, live or afterwards, with the same findings either way."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holter.evaluation.baselines import baselines as read_baselines
from holter.evaluation.baselines import compared
from holter.evaluation.compaction import BackgroundCompaction
from holter.evaluation.evaluator import Evaluator
from holter.evaluation.facts import FactsTracker, began, until
from holter.evaluation.groups import shown
from holter.evaluation.progress import Progress, reread_from
from holter.evaluation.selection import Choice, choose, documents, packs, stored
from holter.evaluation.sources import Stream, replay
from holter.evaluation.status import RuleRun, Status
from holter.rules.sandbox.executor import ProcessLimits, SandboxExecutor
from holter.schema.metrics import DEFAULT_INTERVAL_MS
from holter.store.follow import Follow
from holter.store.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Executor

    from holter.actions._orders import ActionChoice
    from holter.schema.table import Table
    from holter.store.documents import Document
    from holter.store.job import JobFolder

__all__ = ["EvaluationResult", "RuleRun", "Status", "choose", "documents", "evaluate", "packs", "stored"]

NO_ISSUES, RULE_FAILED, ISSUES_FOUND = 0, 1, 3
_SAVE_FIRST_S, _SAVE_LAST_S = 5.0, 60.0
_ACTIONS_S, _ACTIONS_LATER_S = 15.0, 1.0
"""Seconds that actions may take once the job has ended; and when another evaluation continues them."""


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The result of evaluating a job's rules."""

    rules: list[Document]
    """One document per rule, as in `evaluations.json`."""
    judged_until: int
    """The moment up to which the job was judged, ns since the epoch."""
    cost: Mapping[str, float]
    left_out: list[str] = field(default_factory=list)
    """A sentence for each rule of the manifest that did not run."""
    strict_coverage: bool = False

    @property
    def exit_code(self) -> int:
        """0 = no issue, 3 = issues found, 1 = a rule failed."""
        statuses = {rule["status"] for rule in self.rules}
        if "Error" in statuses or (self.strict_coverage and self.left_out):
            return RULE_FAILED
        return ISSUES_FOUND if any(rule["issues"] for rule in self.rules) else NO_ISSUES


def evaluate(
    folder: JobFolder,
    rules: Iterable[Choice] | None = None,
    *,
    actions: Sequence[ActionChoice] = (),
    live: bool = False,
    record: bool | None = None,
    stopping: Callable[[], bool] = lambda: False,
    wait: Callable[[float], object] = time.sleep,
    baselines: Mapping[str, JobFolder] | None = None,
    limits: ProcessLimits | None = None,
    executor: Callable[[ProcessLimits], Executor] = SandboxExecutor,
    strict_coverage: bool = False,
) -> EvaluationResult:
    """Evaluate the rules of a job.

    Args:
        folder: The job.
        rules: The rules. By default those of the job's manifest, without rules of files: a store to which
            others can write must not run code.
        actions: What to do about issues, as `actions._orders.documents` returns it; by default nothing. The
            actions in a manifest are for display only.
        live: Continue until the job has ended. Otherwise evaluate the present rows as if they were all.
        record: Write statuses, issues, progress and steps to the store, and continue from what is there. By
            default if the job has ended or `live`; otherwise a running job's store is not changed.
        stopping: Called between reads; once true, present rows are judged and the statuses become Stopped.
        wait: Waits the given seconds for new data.
        baselines: Jobs that rules compare with, by name; other names are looked up in the store.
        limits: The limits of rules that run in sandbox processes.
        executor: Makes the executors of those.
        strict_coverage: A rule that could never judge has failed.

    Raises:
        BadRule: An unknown rule or parameter; before anything is read.
        ValueError: The times of a finished job's rows are further apart than any training lasts.
    """
    manifest = folder.manifest()
    runs, left_out = stored(manifest.get("rules")) if rules is None else (choose(rules), [])
    for run in runs:
        run.strict_coverage = run.strict_coverage or strict_coverage
    compared(runs, list(baselines or ()))
    ended = manifest.get("end") is not None
    record = (ended or live) if record is None else record
    progress = Progress(folder, record=record, actions=actions, rules=documents(runs))
    sandbox = {"limits": limits, "executor": executor}
    others = read_baselines(runs, folder, baselines, anywhere=rules is not None)
    evaluator, since = _evaluator(folder, manifest, runs, progress, baselines=others, **sandbox)
    if ended and progress.finished and since is not None:
        for run in runs:
            run.phase = "Done"
        progress.finish_actions(_ACTIONS_S, last=True)
        cost = progress.before.get("cost", {})
        return EvaluationResult(shown(runs), evaluator.judged, cost, left_out, strict_coverage)
    try:
        if live and not ended:
            finished = _follow(folder, evaluator, progress, since, stopping, wait)
        else:
            finished = _replay(folder, evaluator, since, ended=ended)
        for run in runs:
            run.phase = "Done" if finished else "Stopped" if live else "InProgress"
        progress.save(runs, evaluator, finished=finished)
        progress.finish_actions(_ACTIONS_S if finished else _ACTIONS_LATER_S, last=finished)
    finally:
        evaluator.close()
        progress.close()
    cost = progress.cost(evaluator)
    return EvaluationResult(shown(runs), evaluator.judged, cost, left_out, strict_coverage)


def _evaluator(
    folder: JobFolder, manifest: Document, runs: list[RuleRun], progress: Progress, **more: Any
) -> tuple[Evaluator, int | None]:
    """Return the evaluator as an earlier run left it, and the time from which it needs rows again."""
    trial = Trial(folder, threads=1)
    facts = FactsTracker(
        start=began(trial),
        interval_ms=manifest.get("interval_ms") or DEFAULT_INTERVAL_MS,
        nodes=folder.nodes(),
        url=folder.url,
        total_steps=manifest.get("total_steps"),
    )
    judged = progress.restore(runs, facts)
    ends = trial.sql("SELECT rank, max(time + duration) AS done FROM steps GROUP BY rank")
    done = {int(rank): int(end) for rank, end in zip(ends["rank"], ends["done"], strict=True)}
    keep = progress.keep_steps
    evaluator = Evaluator(runs, facts, keep_steps=keep, steps_done=done, judged=judged, **more)
    since = None
    if judged is not None:
        reach = max((run.rule.lookback.seconds or 0.0 for run in runs), default=0.0)
        since = reread_from(judged, reach, done)
        steps = max((run.rule.lookback.steps or 0 for run in runs), default=0)
        evaluator.take("steps", _steps_before(trial, since, steps))
    return evaluator, since


def _steps_before(trial: Trial, since: int, count: int) -> Table:
    """Read the steps of a restart's lookback: the last `count` steps of each rank before a moment."""
    last = trial.sql(f"SELECT rank, max(step) AS step FROM steps WHERE time < {since} GROUP BY rank")  # noqa: S608
    low = int(last["step"].min()) - count if last.rows else 0
    return trial.table("steps", end_ns=since, where=f"step > {low}")


def _replay(folder: JobFolder, evaluator: Evaluator, since: int | None, *, ended: bool) -> bool:
    trial = Trial(folder)
    for complete in replay(trial, evaluator, since=since):
        evaluator.advance(complete)
    evaluator.advance(until(trial, max(evaluator.newest, evaluator.facts.start)), ended=True)
    return ended


def _all_here(nodes: Mapping[str, Document], expected: int) -> bool:
    """Return whether every node of the launch has written its facts; nodes may start later."""
    return len(nodes) >= expected and all("cpus" in facts for facts in nodes.values())


def _follow(
    folder: JobFolder,
    evaluator: Evaluator,
    progress: Progress,
    since: int | None,
    stopping: Callable[[], bool],
    wait: Callable[[float], object],
) -> bool:
    evaluator.take("steps", Trial(folder, threads=1).table("steps", start_ns=since))
    follow = Follow(folder)
    stream = Stream(follow, evaluator, since=since)
    saved, statuses, pause = time.monotonic(), list[tuple[Status, int]](), _SAVE_FIRST_S
    compaction = BackgroundCompaction(folder)
    expected = int((folder.manifest().get("launch") or {}).get("nodes") or 1)
    while True:
        stop = stopping()
        if stop:
            for run in evaluator.runs:
                run.phase = "Stopping"
        ended = folder.manifest().get("end")
        if not _all_here(evaluator.facts.nodes, expected):
            evaluator.facts.nodes = folder.nodes()
        drained = stream.read()
        if (complete := stream.complete_until) is not None:
            evaluator.advance(complete)
        if drained and ended is not None and follow.finished:
            newest = max(evaluator.newest, evaluator.facts.start)
            evaluator.advance(until(Trial(folder, threads=1), newest), ended=True)
            compaction.close()
            return True
        if drained and stop:
            compaction.close()
            return False
        now = [(run.status, len(run.issues)) for run in evaluator.runs]
        if now != statuses or progress.actions.changed or time.monotonic() - saved >= pause:
            progress.save(evaluator.runs, evaluator)
            saved, statuses, pause = time.monotonic(), now, min(_SAVE_LAST_S, pause * 1.3)
        compaction.tick()
        if drained:
            wait(2.0 if time.time_ns() - evaluator.facts.start < 60e9 else 5.0)
