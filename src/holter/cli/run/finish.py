"""The end of a job, step by step: evaluate, compact, describe, store the verdict, write the report, print."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TextIO, cast

from holter.cli.naming import command_for
from holter.cli.run.short_card import print_short_card
from holter.store.layout import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.agent.supervision.outcome import Outcome
    from holter.store.documents import Document
    from holter.store.job import JobFolder
    from holter.store.trial import Trial
    from holter.views.document.types import Description

WORTH_JUDGING_S = 5.0
"""The machine's metrics of a command that trains nothing are judged only when it ran at least this long."""


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
    trained = any(process["steps"] for process in outcome.processes)
    trained = trained or any(facts.get("trained") for facts in folder.nodes().values())
    if not trained and outcome.duration_s < WORTH_JUDGING_S:
        print_short_card(folder, outcome, stream)
        return set()
    from holter.evaluation import evaluate
    from holter.report import profiler_report
    from holter.store.compact import compact
    from holter.views import heatmap
    from holter.views.jobs import judged
    from holter.views.reading import Reading

    if rules:
        attempt("rules", lambda: evaluate(folder, rules, actions=actions))
    attempt("compaction", lambda: compact(folder))
    trial, description = _describe(folder, outcome, faults)
    attempt("manifest", lambda: folder.update(verdict=judged(description)))
    attempt("heat map", lambda: heatmap.keep(trial, Reading(trial).interval_ns))
    if profiler_report.wanted(folder):
        attempt("report", lambda: profiler_report.write(folder))
    if trained:
        from holter.cli.card import print_card

        print_card(description, stream, command_for(folder))
    else:
        print_short_card(folder, outcome, stream)
    return {rule["name"] for rule in description["rules"] if rule["status"] == "IssuesFound"}


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
