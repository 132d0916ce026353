"""The files of SageMaker's profiler report: a page, a notebook, and a JSON document for each of its rules."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from holter.evaluation import evaluate
from holter.pages.data.encoding import encoded
from holter.report.formats import report
from holter.report.rule_details import RULES, details
from holter.store.trial import Trial
from holter.views.document.active_then import at_moments, in_steps
from holter.views.document.cost import details as event_details

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.store.documents import Document
    from holter.store.job import JobFolder

RULE = "ProfilerReport"
LEAST_PAUSE_S = 60.0
SHARE = 50
"""A report that takes a second is made anew every 50 s at most: it costs 2 % of a core."""


def wanted(folder: JobFolder) -> bool:
    """Tell whether the job's rules ask for a report while it runs."""
    return any(rule.get("name") == RULE for rule in folder.manifest().get("rules") or ())


def place_of(folder: JobFolder) -> str:
    """Return where in a job its report is kept, below its URL."""
    began = int(folder.manifest().get("start") or folder.manifest().get("created") or 0) // 1_000_000_000
    return f"rule-output/{RULE}-{began:010d}/profiler-output"


def files(folder: JobFolder, *, judge: bool = False) -> dict[str, str]:
    """Return the report's files by their names; with `judge`, also those of rules that did not run before."""
    trial = Trial(folder)
    ran = _ran(folder)
    missing = [name for name in RULES if name not in ran] if judge else []
    late = {rule["rule"]: rule for rule in evaluate(folder, missing, record=False).rules} if missing else {}
    found = {
        "profiler-report.html": report(trial, "html", rules=list(late.values())),
        "profiler-report.ipynb": report(trial, "ipynb"),
    }
    ran |= late
    for rule in [ran[name] for name in RULES if name in ran]:
        text = msgspec.json.format(encoded(document(rule, trial)), indent=2).decode()
        found[f"profiler-reports/{rule['rule']}.json"] = text + "\n"
    return found


def _ran(folder: JobFolder) -> dict[str, Document]:
    """Return, by name, the report's rules that ran; of several of a kind the first."""
    ran: dict[str, Document] = {}
    for rule in folder.evaluations().get("rules") or ():
        if isinstance(rule, dict) and rule.get("rule") in RULES:
            ran.setdefault(rule["rule"], rule)
    return ran


def document(rule: Document, trial: Trial) -> Document:
    """Return what a rule found as SageMaker writes it.

    Returns:
        `RuleTriggered`: evaluations that found something; `Violations`: how often what it looks for was
        there; `Datapoints`: how many readings or steps it judged; `RuleParameters`: a line each; `Details`;
        and, which SageMaker has not, `Parameters` as values.
    """
    found = details(rule)
    if rule.get("triggered"):
        if rule["rule"] in ("CPUBottleneck", "IOBottleneck"):
            found |= at_moments(trial, [int(time) * 1000 for time in found.get("bottlenecks", ())])
        elif rule["rule"] == "StepOutlier":
            slow = {key: one["step_numbers"] for key, one in found.get("step_details", {}).items()}
            found |= in_steps(trial, {int(rank): steps for rank, steps in slow.items() if rank.isdecimal()})
    if rule["rule"] == "StepOutlier" and found:
        found["step_details"] = _named(found["step_details"], trial)
    coverage = rule.get("coverage") or {}
    parameters = rule.get("parameters") or {}
    counts = [int(issue.get("count") or 1) for issue in rule.get("issues") or ()]
    return {
        "RuleTriggered": int(rule.get("triggered") or 0),
        "Violations": sum(counts) + int(rule.get("more_issues") or 0),
        "Datapoints": int(coverage.get("points_seen") or 0) if coverage.get("evaluated") else 0,
        "RuleParameters": "\n".join(f"{name}:{value}" for name, value in parameters.items()),
        "Details": found,
        "Parameters": parameters,
    }


def _named(steps: Document, trial: Trial) -> Document:
    """Return details of ranks by `<node>-<process>`, as far as the job recorded its processes."""
    names = {
        str(process["rank"]): f"{process['node']}-{process.get('pid', process['rank'])}"
        for process in event_details(trial.table("events"), "process")
        if process.get("role", "trainer") == "trainer"
    }
    found = {}
    for key, one in steps.items():
        rank, dash, mode = key.partition("-")
        found[names.get(rank, f"rank-{rank}") + dash + mode] = one
    return found


def write(folder: JobFolder) -> None:
    """Write the report into the job, each file in one piece; raises `OSError` when that cannot be."""
    where = place_of(folder)
    for name, text in files(folder).items():
        folder.place.write(f"{where}/{name}", text.encode())


def follow(
    folder: JobFolder,
    *,
    stopping: Callable[[], bool],
    wait: Callable[[float], object],
    clock: Callable[[], float] = time.process_time,
) -> None:
    """Keep the report of a running job up to date until it ends or `stopping` says so, at bounded cost.

    `clock` returns the CPU seconds used so far.
    """
    judged = None
    while not stopping():
        pause = LEAST_PAUSE_S / 10
        updated = folder.evaluations().get("updated")
        if updated is not None and updated != judged:
            began = clock()
            try:
                write(folder)
                judged = updated
            except (OSError, ValueError) as error:
                print(f"the report could not be written: {type(error).__name__}: {error}", flush=True)
            pause = max(LEAST_PAUSE_S, SHARE * (clock() - began))
        if folder.manifest().get("end") is not None:
            return
        wait(pause)
