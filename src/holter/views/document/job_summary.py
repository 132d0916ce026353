"""Describes the job itself: its command, how it ended, its attempts and the scheduler's job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from holter.analysis.events import framework as framework_of
from holter.analysis.steps.trainings import begins, restarted, step_counts
from holter.schema.signals import signal_name
from holter.views.jobs import RUNNING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.schema.table import Table
    from holter.store.documents import Document
    from holter.views.document.types.job import JobAttempt, JobSummary, SchedulerFacts


def job_summary(
    manifest: Document, nodes: Mapping[str, Document], steps: Table, events: Table, now: int
) -> JobSummary:
    """Return the document's `job`, without its headline; `now` is ns since the epoch."""
    start, end = manifest.get("start"), manifest.get("end")
    status, signal = manifest.get("status"), manifest.get("signal")
    until = end or (now if status in RUNNING else None)
    framework: Any = framework_of(events) or manifest.get("framework")
    if framework:
        framework = {key: framework.get(key) for key in ("name", "version", "device")}
    return {
        "name": manifest["name"],
        "status": cast("Any", status),
        "command": manifest.get("command") or [],
        "start": start,
        "end": end,
        "duration_s": (until - start) / 1e9 if start and until else None,
        "exit_code": manifest.get("exit_code"),
        "signal": signal_name(signal) if isinstance(signal, int) else signal,
        "failure": manifest.get("failure"),
        "stopped_by": manifest.get("stopped_by"),
        "framework": framework,
        "headline": None,
        "attempts": _attempts(steps, events),
        "scheduler": _scheduler(nodes),
        "nodes_expected": (manifest.get("launch") or {}).get("nodes"),
    }


def _scheduler(nodes: Mapping[str, Document]) -> SchedulerFacts | None:
    """Return the scheduler's job, from the first node that knows most of it."""
    entries = [one for facts in nodes.values() if (one := facts.get("scheduler"))]
    if not entries:
        return None
    known = max(entries, key=len)
    return cast(
        "SchedulerFacts", {name: known.get(name) for name in ("name", "job", "step", "restarts", "ends")}
    )


def _attempts(steps: Table, events: Table) -> list[JobAttempt]:
    starts = begins(steps)
    if len(starts) < 2 or not restarted(events):
        return []
    return [{"start": start, "steps": count} for start, count in zip(starts, step_counts(steps), strict=True)]
