"""The end of a job, step by step: evaluate, compact, describe, store the verdict, write the report, print."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from holter.analysis.verdict.failure import exception_line
from holter.cli.naming import command_for
from holter.cli.output import clean, wrapped
from holter.recorder.unsupported import NOT_RECORDED
from holter.schema.record import ADAPTER
from holter.schema.signals import signal_name
from holter.store.layout import MANIFEST
from holter.views.document.unattached import reasons, said
from holter.views.wording import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from holter.agent.supervision.outcome import Outcome
    from holter.store.documents import Document
    from holter.store.job import JobFolder
    from holter.store.trial import Trial
    from holter.views.document.types import Description

WORTH_JUDGING_S = 5.0
"""The machine's metrics of a command that trains nothing are judged only when it ran at least this long."""
_ATTACHED = {
    "Ended": "the process ended; its exit code is unknown, because it is not a child of holter",
    "Detached": "detached; the process goes on",
}
"""Status of a job of `holter attach` → what happened."""
_FRAME = re.compile(r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>\S+)$', re.MULTILINE)
_INSTALLED = re.compile(r"/(site|dist)-packages/|/lib/python3[^/]*/|^<")


def finish(
    folder: JobFolder,
    outcome: Outcome,
    node: str,
    stream: TextIO,
    *,
    rules: Sequence[Document] = (),
    actions: Sequence[Document] = (),
) -> set[str]:
    """Judge a job whose command has ended, print its card, and return the rules that found an issue.

    A step that fails does not stop the following steps; the card names it. `rules` and `actions` come from
    this command line, because the store may hold rules that others wrote.
    """
    faults: list[str] = []
    attempt = partial(_attempt, faults)
    folder.place.read(MANIFEST)  # a store that is gone fails here, once
    attempt("cost", lambda: folder.update_node(node, cost=outcome.cost))
    trained = outcome.trained or any(facts.get("trained") for facts in folder.nodes().values())
    if not trained and outcome.duration_s < WORTH_JUDGING_S:
        _print_short_card(folder, outcome, stream)
        return set()
    from holter.evaluation import evaluate
    from holter.report import profiler_report, xgboost_report
    from holter.store.compact import compact
    from holter.views import heatmap
    from holter.views.course import course
    from holter.views.fleet import usage
    from holter.views.jobs import judged
    from holter.views.reading import Reading

    if rules:
        attempt("rules", lambda: evaluate(folder, rules, actions=actions))
    attempt("compaction", lambda: compact(folder))
    trial, description = _describe(folder, outcome, faults)
    attempt("manifest", lambda: folder.update(verdict=judged(description), usage=usage(trial, description)))
    attempt("course", lambda: folder.update(step_course=course(trial)))
    attempt("index", lambda: _enter_index(folder))
    attempt("heat map", lambda: heatmap.keep(trial, Reading(trial).interval_ns))
    if profiler_report.wanted(folder):
        attempt("report", lambda: profiler_report.write(folder))
    if xgboost_report.wanted(folder):
        tell = "holter: XGBoost training report: {}\n"
        attempt("XGBoost report", lambda: stream.write(tell.format(xgboost_report.write(folder))))
    if trained or description["program"]:
        from holter.cli.card import print_card

        if not trained and any(_other_frameworks(folder)):
            print(wrapped(f"holter: {_why_no_training(folder, outcome)}", stream), file=stream)
        print_card(description, stream, command_for(folder))
    else:
        _print_short_card(folder, outcome, stream)
    return {rule["name"] for rule in description["rules"] if rule["status"] == "IssuesFound"}


def _enter_index(folder: JobFolder) -> None:
    """Add the job to the index of its store; if that is another user's, readers read the manifest."""
    from holter.store import index
    from holter.views.fleet import index_entry

    with suppress(PermissionError):
        index.add(os.path.dirname(folder.url), index_entry(folder.manifest()))


def _attempt(faults: list[str], name: str, step: Callable[[], object]) -> None:
    """Do one step; keep its error as a fault."""
    try:
        step()
    except Exception as error:
        faults.append(f"{name}: {type(error).__name__}: {error}")


def _describe(folder: JobFolder, outcome: Outcome, faults: list[str]) -> tuple[Trial, Description]:
    """Describe the job; add what only the agent knows, because the store could not be written."""
    from holter.store.trial import Trial
    from holter.views.document.description import describe

    trial = Trial(folder)
    description = describe(trial)
    cost: Any = description["cost"]
    unwritten = [fault for fault in outcome.faults if fault["where"] in ("store", "manifest")]
    if unwritten:
        cost["dropped"] = max(cost["dropped"] or 0, outcome.dropped)
        known = {fault["error"] for fault in cost["faults"]}
        cost["faults"][:0] = [fault for fault in unwritten if fault["error"] not in known]
    if any(fault["where"] == "manifest" for fault in unwritten):
        ending = {name: getattr(outcome, name) for name in ("status", "exit_code", "signal", "failure")}
        cast("dict[str, Any]", description["job"]).update(ending, duration_s=outcome.duration_s)
    cost["faults"] += [{"where": "end", "error": text} for text in faults]
    return trial, description


def _print_short_card(folder: JobFolder, outcome: Outcome, stream: TextIO) -> None:
    """Print the card of a command that took no training step."""
    lines = [] if (ending := _ending(folder, outcome)) is None else [ending]
    lines.append(f"{duration(outcome.duration_s)}; {_why_no_training(folder, outcome)}")
    lines += [
        f"internal error, the command was not touched: {fault['where']}: {fault['error']}"
        for fault in [one for one in outcome.faults if not one["where"].startswith(ADAPTER)][:2]
    ]
    lines.append(f"only metrics of the machine were recorded: {command_for(folder)}")
    for line in lines:
        print(wrapped(f"holter: {clean(line)}", stream), file=stream)
    stream.flush()


def _ending(folder: JobFolder, outcome: Outcome) -> str | None:
    """Say how the command failed, or how the recording of an attached process ended; None for success."""
    if outcome.status in _ATTACHED:
        return _ATTACHED[outcome.status]
    failed = "the command failed before its first step"
    if outcome.failure is None:
        other = folder.manifest().get("failure")
        if not isinstance(other, dict):
            return None
        return (
            f"the job failed on node {other.get('node')}: {other.get('exception') or other.get('evidence')}"
        )
    if exception := outcome.failure.get("exception"):
        place = _raised_at(folder, outcome.failure)
        return f"{failed}: {exception_line(exception)}" + (f" in {place}" if place else "")
    if outcome.signal:
        return f"the command was killed by {signal_name(outcome.signal)} before its first step"
    return f"{failed}, with exit code {outcome.exit_code}"


def _why_no_training(folder: JobFolder, outcome: Outcome) -> str:
    if outcome.status in _ATTACHED:
        return f"too short to judge: it takes {WORTH_JUDGING_S:.0f} s at least"
    if others := list(_other_frameworks(folder)):
        names = " and ".join(others)
        verb, them = ("was", "it") if len(others) == 1 else ("were", "them")
        return f"{names} {verb} imported; holter does not record {them}; mark steps with holter.step()"
    if failed := list(reasons(cast("Sequence[Mapping[str, Any]]", outcome.faults))):
        return f"no training step was recorded: {said(failed)}"
    if outcome.failure is not None:
        return "no training step was recorded"
    if outcome.trainers:
        return "no training step was recorded: the frameworks that were used took none"
    return (
        "no training step was recorded: no framework that holter records was imported, or it is hidden "
        "(python -I, -E); mark steps with holter.step()"
    )


def _other_frameworks(folder: JobFolder) -> Iterator[str]:
    """Yield name and version of each framework that processes of the job imported, other than PyTorch."""
    versions: dict[str, str] = {}
    for row in _events(folder, "imported"):
        versions |= {str(name): str(version or "") for name, version in row.items() if name in NOT_RECORDED}
    for name, version in versions.items():
        yield f"{NOT_RECORDED[name]} {version}".rstrip()


def _raised_at(folder: JobFolder, failure: Mapping[str, object]) -> str:
    """Return function, file and line in the user's own code that raised; empty when it was not recorded."""
    for row in _events(folder, "exception"):
        message = f"{row.get('type')}: {row.get('message')}" if row.get("message") else str(row.get("type"))
        if message.strip() != str(failure["exception"]).strip():
            continue
        frames = list(_FRAME.finditer(str(row.get("traceback") or "")))
        own = [frame for frame in frames if not _INSTALLED.search(frame["file"])]
        if own or frames:
            last = (own or frames)[-1]
            return f"{last['function']} ({Path(last['file']).name}:{last['line']})"
    return ""


def _events(folder: JobFolder, kind: str) -> list[Document]:
    """Return the details of a job's events of one kind; empty when the store cannot be read."""
    from holter.store.trial import Trial
    from holter.views.document.cost import details

    try:
        return details(Trial(folder).table("events"), kind)
    except (OSError, ValueError):
        return []
