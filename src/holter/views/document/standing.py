"""Says where a job stands while no verdict is possible: starting, warming up, or failed before a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted, took
from holter.analysis.verdict.job_verdict import MIN_STEPS

if TYPE_CHECKING:
    from holter.views.document.types.job import JobSummary
    from holter.views.document.types.verdict import JobVerdict

PATIENCE_S = 120.0
"""A job that has no step after this time gets the advice to mark its steps."""
FAILED = "No training step was recorded before the failure."


def placed(judged: JobVerdict, job: JobSummary, *, running: bool, steps: int, steady: int) -> JobVerdict:
    """Return the verdict of a job; while none is possible, its state takes the place of the sentence.

    Args:
        judged: The verdict, without the description of a program.
        job: What ran.
        running: Whether the job still runs.
        steps: How many steps were recorded, of all ranks.
        steady: How many of them are after the warm-up, of one rank.
    """
    long = (job["duration_s"] or 0.0) > PATIENCE_S
    if job["status"] == "Failed" and not steps:
        # The crash is the news; advice on steps would distract from it.
        return judged if long else {**judged, "sentence": FAILED, "evidence": [], "advice": []}
    if not running or steady >= MIN_STEPS or (long and not steps):
        return judged
    return {**judged, "sentence": _state(job, steps, steady), "advice": [], "missing": []}


def _state(job: JobSummary, steps: int, steady: int) -> str:
    since = took(job["duration_s"] or 0.0)
    if steady:
        return f"Judging: {counted(steady, 'steady step')} so far, {MIN_STEPS} are necessary for a verdict."
    if steps:
        return f"Warming up: {counted(steps, 'step')} so far."
    framework = job["framework"]
    if framework:
        return f"Waiting for the first step: {framework['name']} was found, the job has run for {since}."
    return f"Starting: no framework was found yet, the job has run for {since}."
