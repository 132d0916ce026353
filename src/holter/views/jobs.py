"""Summarizes each job of a store in one line, and checks whether a job runs."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from holter.views.issues import ordered
from holter.views.wording import duration, words

if TYPE_CHECKING:
    from holter.store.job import JobFolder
    from holter.store.trial import Trial
    from holter.views.document.types import Description

RUNNING = ("InProgress", "Stopping")
ENOUGH = 20
"""Steps after warm-up from which on a verdict of a running job is more than a guess."""
_SILENT_S = 60.0
"""Agents write a heartbeat every few seconds; an agent without one for this long is gone."""
_STARTING_S = 60.0
"""A job that runs longer without a step is no longer starting."""
_RECENT_NS = 3_600_000_000_000
"""Of a running job, the list reads the steps of the last hour only."""


class ListedJob(TypedDict):
    """One job of a list; absent values are None."""

    name: str
    created: int | None
    status: str
    duration_s: float | None
    exit_code: int | None
    verdict: dict[str, Any] | None
    """suspect, sentence, headline, step_ms (the mean step time), workers (of the data loader)."""
    step: int | None
    """Steps that a running job took so far."""
    planned: int | None
    """Steps that a running job will take, as far as it is known."""
    silent_s: float | None
    """Seconds since the last heartbeat of a job without an end; None while an agent is alive."""
    fault: str | None
    tags: dict[str, str]
    course: list[float | None] | None
    """Median step times of equal stretches, ms; of a running job those of the last hour."""
    issue: tuple[str, str] | None
    """Severity and summary of the worst open issue of a running job, notes left out."""
    store: NotRequired[int]
    """Number of its store, of several."""


def summary(folder: JobFolder, now_ns: int) -> ListedJob:
    """Return one job's line in a list."""
    manifest = folder.manifest()
    start, end = manifest.get("start"), manifest.get("end")
    running = manifest.get("status") in RUNNING
    silent = silent_s(folder, now_ns) if running else None
    # A silent job is known to have run until its last heartbeat.
    until = end or (now_ns - int((silent or 0.0) * 1e9) if running else None)
    step, total, newest = _progress(folder, now_ns) if running else (None, None, None)
    return {
        "name": folder.name,
        "created": manifest.get("created"),
        "status": manifest.get("status", "Unreadable") if readable(folder) else "Unreadable",
        "duration_s": (until - start) / 1e9 if until and start else None,
        "exit_code": manifest.get("exit_code"),
        "verdict": manifest.get("verdict"),
        "step": step,
        "planned": total,
        "silent_s": silent,
        "fault": folder.fault,
        "tags": manifest.get("tags") or {},
        "course": newest if running else manifest.get("step_course"),
        "issue": _worst(folder) if running else None,
    }


def _progress(folder: JobFolder, now_ns: int) -> tuple[int | None, int | None, list[float | None] | None]:
    """Return the steps that a running job took, and will take, and its course; what is unknown is None."""
    # Tables take time to load, and most lists have no running job.
    from holter.store.trial import Trial
    from holter.views.course import course
    from holter.views.document.planned import planned

    with suppress(OSError, ValueError, LookupError):
        trial, since = Trial(folder, threads=1), now_ns - _RECENT_NS
        newest = _newest(trial, since)
        if newest is not None:
            total = planned(trial, None, 1)
            recent = course(trial, since) if trial.rows("steps") else None
            return newest + 1, total and total[0], recent
    return None, None, None


def _newest(trial: Trial, since: int) -> int | None:
    """Return the number of the newest step; None without one. Only rules store steps, so spans count too."""
    newest = trial.sql("SELECT max(step) AS step FROM steps")["step"][0]
    if newest is None:
        query = f"SELECT max(step) AS step FROM spans WHERE worker = -1 AND time >= {since}"  # noqa: S608
        newest = trial.sql(query, start_ns=since)["step"][0]
    return int(newest) if newest is not None and newest >= 0 else None


def _worst(folder: JobFolder) -> tuple[str, str] | None:
    """Return severity and summary of the worst open issue that is more than a note."""
    found = ordered(folder.evaluations().get("rules") or [])
    worst = next((one for one in found if not one.over and one.severity != "info"), None)
    return None if worst is None else (worst.severity, worst.issue["summary"])


def chip(job: ListedJob) -> tuple[str, str]:
    """Return the verdict on a listed job in a word or two, and its mood: good, warn, bad or nothing.

    The verdict on a running job comes at its end; until then this is its worst open issue, or how far it is.
    """
    verdict = job["verdict"]
    if not isinstance(verdict, dict):
        if job["status"] not in RUNNING or job["silent_s"]:
            return "", ""
        if job["issue"]:
            return ("problem", "bad") if job["issue"][0] == "critical" else ("warning", "warn")
        if job["step"] is None:
            return ("starting" if (job["duration_s"] or 0.0) < _STARTING_S else "no step yet"), ""
        return ("first steps" if job["step"] < ENOUGH else "judging"), ""
    headline, suspect = verdict.get("headline"), str(verdict.get("suspect") or "")
    if headline and job["status"] != "Failed":
        broken = next((word for word in ("NaN", "infinite") if f"turned {word}" in headline), "problem")
        return broken, "bad"
    if job["status"] == "Failed":
        return "", ""
    return words(suspect), {"healthy": "good", "inconclusive": ""}.get(suspect, "warn")


def tagged(job: ListedJob, asked: str) -> bool:
    """Tell whether a job has a tag, given as `KEY` or `KEY=VALUE`; each has the empty one."""
    key, equals, value = asked.partition("=")
    return not asked or (key in job["tags"] and (not equals or job["tags"][key] == value))


def readable(folder: JobFolder) -> bool:
    """Tell whether a job can be described: a manifest of another schema version may say when it began."""
    return folder.fault is None or "start" in folder.manifest()


def judged(description: Description) -> dict[str, Any]:
    """Return what a job's manifest keeps of its verdict, for the lists of jobs; it takes a description."""
    verdict, headline = description["verdict"], description["job"]["headline"]
    steps, loading = description["steps"], description["dataloading"]
    return {
        "suspect": verdict["suspect"],
        "sentence": verdict["sentence"],
        "headline": headline,
        "step_ms": steps["mean_ms"] if steps else None,
        "workers": loading["workers"] if loading else None,
    }


def ended_sick(job: ListedJob) -> bool:
    """Return whether a completed job, given as its `summary`, has a headline such as NaN in its verdict."""
    verdict = job["verdict"]
    return job["status"] == "Completed" and isinstance(verdict, dict) and bool(verdict.get("headline"))


def said(job: ListedJob) -> str:
    """Return what lists say of a job, its `summary`: why its card is missing, its headline or suspect.

    Of a running job it is the worst issue, of one that failed without a headline its exit code.
    """
    if job["fault"]:
        less = said({**job, "fault": None})
        return f"{job['fault']}; {less}" if less else str(job["fault"])
    if job["silent_s"]:
        return f"its agent said nothing for {duration(job['silent_s'])}"
    verdict = job["verdict"]
    if isinstance(verdict, dict) and verdict.get("headline"):
        return str(verdict["headline"])
    if job["status"] == "Failed" and job["exit_code"] is not None:
        return f"exit code {job['exit_code']}"
    return job["issue"][1] if job["issue"] else chip(job)[0]


def silent_s(folder: JobFolder, now_ns: int) -> float | None:
    """Return the seconds since the last heartbeat of an unfinished job; None while an agent is alive."""
    heard = [
        facts["heartbeat"] for facts in folder.nodes().values() if isinstance(facts.get("heartbeat"), int)
    ]
    newest = max(heard, default=folder.manifest().get("start") or now_ns)
    silent = (now_ns - newest) / 1e9
    return silent if silent > _SILENT_S else None


def why_not_running(folder: JobFolder) -> str | None:
    """Explain why a job accepts no orders; None if it runs."""
    status = folder.manifest().get("status")
    if status not in RUNNING:
        return f"job {folder.name} is not running (it is {status})"
    silent = silent_s(folder, time.time_ns())
    if silent is not None:
        return f"job {folder.name} is not running: its agent said nothing for {duration(silent)}"
    return None


def why_not_obeyed(folder: JobFolder, order: str) -> str | None:
    """Explain why no agent of a job obeys this kind of order; None if one does."""
    obeyed = [facts.get("obeys") or () for facts in folder.nodes().values()]
    if not obeyed or any(order in each for each in obeyed):
        return None
    return f"job {folder.name}: its agents are of an older version, which does not know {order!r}"
