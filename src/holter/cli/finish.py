"""What happens after the command's end: judge what is left, compact, describe, print the card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO, cast

from holter.analysis.verdict.failure import first_line
from holter.cli.options import wrapped
from holter.cli.output import clean
from holter.schema.signals import signal_name
from holter.store.layout import MANIFEST
from holter.views.wording import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holter.agent.supervision.supervise import Outcome
    from holter.store.job import JobFolder

WORTH_JUDGING_S = 5.0
"""A command that does not train is judged by the machine it ran on only when it ran as long as this."""


def finish(
    folder: JobFolder,
    outcome: Outcome,
    node: str,
    look: str,
    stream: TextIO,
    *,
    rules: Sequence[Mapping[str, Any]] = (),
    actions: Sequence[Mapping[str, Any]] = (),
) -> set[str]:
    """Judge a job whose command has ended and print its card to `stream`.

    Args:
        folder: The job.
        outcome: How it ended, as the agent says.
        node: Name of this node.
        look: The command that shows more.
        stream: Where the card goes.
        rules: What to judge by, as this command line says; what lies in the store may be others' words.
        actions: What to do about issues, likewise.

    Returns:
        The rules that found an issue.
    """
    folder.place.read(MANIFEST)  # a store that is away now need not be asked for all the rest
    faults: list[str] = []
    trained = any(process["steps"] for process in outcome.processes)
    _attempt(lambda: folder.update_node(node, cost=outcome.cost), "cost", faults)
    trained = trained or any(facts.get("trained") for facts in folder.nodes().values())
    if not trained and outcome.duration_s < WORTH_JUDGING_S:
        _print_short(folder, outcome, look, stream)
        return set()
    if rules:
        from holter.evaluation import evaluate

        _attempt(lambda: evaluate(folder, rules, actions=actions), "rules", faults)
    from holter.store.compact import compact

    _attempt(lambda: compact(folder), "compaction", faults)
    from holter.cli.card import print_card
    from holter.store.trial import Trial
    from holter.views import heatmap
    from holter.views.document.description import describe
    from holter.views.jobs import judged
    from holter.views.reading import Reading

    trial = Trial(folder)
    description = describe(trial)
    _complete(cast("dict[str, Any]", description), outcome)
    description["cost"]["faults"] += [{"where": "end", "error": text} for text in faults]
    _attempt(lambda: folder.update(verdict=judged(description)), "manifest", faults)
    _attempt(lambda: heatmap.keep(trial, Reading(trial).interval_ns), "heat map", faults)
    from holter.report import profiler_report

    if profiler_report.wanted(folder):
        _attempt(lambda: profiler_report.write(folder), "report", faults)
    if trained:
        print_card(description, stream, look)
    else:
        _print_short(folder, outcome, look, stream)
    return {rule["name"] for rule in description["rules"] if rule["status"] == "IssuesFound"}


def _complete(description: dict[str, Any], outcome: Outcome) -> None:
    """Put in what only the agent knows, where a store that is full or away could not be told of it."""
    unwritten = [fault for fault in outcome.faults if fault["where"] in ("store", "manifest")]
    if not unwritten:
        return
    description["cost"]["dropped"] = max(description["cost"]["dropped"] or 0, outcome.dropped)
    known = {fault["error"] for fault in description["cost"]["faults"]}
    description["cost"]["faults"][:0] = [fault for fault in unwritten if fault["error"] not in known]
    if any(fault["where"] == "manifest" for fault in unwritten):
        told = {name: getattr(outcome, name) for name in ("status", "exit_code", "signal", "failure")}
        description["job"] |= {**told, "duration_s": outcome.duration_s}


def _attempt(step: Callable[[], object], what: str, faults: list[str]) -> None:
    """Do one step of the end; when it fails the others are done all the same and the card says so."""
    try:
        step()
    except Exception as error:
        faults.append(f"{what}: {type(error).__name__}: {error}")


def _print_short(folder: JobFolder, outcome: Outcome, look: str, stream: TextIO) -> None:
    """Say in a few lines what was recorded of a command that took no training step, and what was not."""
    lines = []
    if outcome.failure:
        lines.append(_ending(outcome.failure, outcome))
    elif isinstance(other := folder.manifest().get("failure"), dict):
        why = other.get("exception") or other.get("evidence")
        lines.append(f"the job failed on node {other.get('node')}: {why}")
    if outcome.failure:
        # What it would have done had it lived, nobody knows.
        seen = "it ended before a first step"
    elif outcome.processes:
        seen = "PyTorch took no forward pass and no optimizer step"
    else:
        seen = "PyTorch was not seen in a process (python -I, -E and a cleared environment hide it)"
    lines.append(f"{duration(outcome.duration_s)}; no training was seen: {seen}")
    lines += [
        f"own fault, the command was not touched: {f['where']}: {f['error']}" for f in outcome.faults[:2]
    ]
    lines.append(f"recorded: the machine only; see: {look}")
    for line in lines:
        print(wrapped(f"holter: {clean(line)}", stream), file=stream)
    stream.flush()


def _ending(failure: dict[str, Any], outcome: Outcome) -> str:
    if failure.get("exception"):
        return f"it failed: {first_line(failure['exception'])}"
    if outcome.signal:
        return f"it was killed by {signal_name(outcome.signal)}"
    return f"it failed with exit code {outcome.exit_code}"
