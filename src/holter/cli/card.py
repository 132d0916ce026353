"""The card at the end of a run: verdict, evidence and advice in at most 20 lines."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TextIO, cast

from holter.analysis.verdict.device_verdict import ABOUT_STEPS
from holter.analysis.verdict.evidence import counted, sentence
from holter.analysis.verdict.loop_suspects import NAMED
from holter.cli.bar import bar, legend
from holter.cli.output import clean, columns, console, wrap, write
from holter.views.document.bill import bill_lines
from holter.views.document.cost import unwritten
from holter.views.document.step_unit import PLAIN
from holter.views.issues import ordered
from holter.views.wording import (
    advice_text,
    at_once_text,
    duration,
    gpu_times_text,
    issue_text,
    milliseconds,
    percent,
    sentence_text,
    size,
    stages_text,
    trainings_text,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import Console
    from rich.text import Text

    from holter.views.document.types import Description, TraceDescription
    from holter.views.document.types.job import FrameworkFacts, RecordingCost
    from holter.views.document.types.program import ProgramEntry
    from holter.views.document.types.training import StepSummary
    from holter.views.document.types.wall_time import (
        ChangeEntry,
        GpuTimesEntry,
        LedgerEntry,
        NamedWorkEntry,
    )

    AnyDescription = Description | TraceDescription

MOST_LINES = 20
_LABEL = 11

Block = tuple[str, "str | Text", str, int]
"""Label, text, style, and the most lines of the block."""
Drawn = tuple[Block, "list[Text]"]

_SEVERITY = {"critical": "bold red", "warning": "yellow"}
_MOST_ISSUES = 3
_MOST_BILL = 3
_COSTLY = 10.0
"""A change that costs this percentage of the loop's time is shown."""
_EXTRA_LINES = 2
"""A block may take so many more lines when the card has free lines."""
_DROPPED_FIRST = (("ruled out", 0), ("not seen", 0), ("evidence", 1), ("advice", 1), ("a step", 0))
"""Labels that a full card drops first, and the number of blocks that stay."""


def print_card(description: AnyDescription, stream: TextIO, next_: str, width: int | None = None) -> None:
    """Print the card of a described job to `stream`, in at most `MOST_LINES` lines of `width` columns.

    `next_` is the command that shows more.
    """
    from rich.cells import cell_len
    from rich.text import Text

    width = width or columns(stream)
    out = console(stream, width)
    title = f"── holter · {description['job']['name']} "
    facts = f" {_facts(description, width - cell_len(title) - 5)} ──"
    write(
        out,
        Text(title + "─" * max(1, width - cell_len(title) - cell_len(facts)) + facts, style="bright_black"),
    )
    # The last lines, the cost of holter and the next command, are always there.
    tail: list[Block] = [*_bill(description), *_cost(description), ("next", next_, "bright_black", 1)]
    space = MOST_LINES - 1 - len(tail)
    drawn = [(block, _wrap(block, out, width)) for block in _blocks(description, width)]
    kept = _whole(_fitting(drawn, space), space, lambda block: _wrap(block, out, width, _EXTRA_LINES))
    for line in _labeled_once(kept)[:space]:
        write(out, line)
    for block in tail:
        write(out, _wrap(block, out, width)[0])


def _fitting(drawn: list[Drawn], space: int) -> list[Drawn]:
    """Drop the least important blocks until the others fit: all that is ruled out, then the last evidence."""
    for label, least in _DROPPED_FIRST:
        while sum(len(lines) for _, lines in drawn) > space:
            at = [i for i, (block, _) in enumerate(drawn) if block[0] == label]
            if len(at) <= least:
                break
            del drawn[at[-1]]
    return drawn


def _whole(drawn: list[Drawn], space: int, longer: Callable[[Block], list[Text]]) -> list[Drawn]:
    """Give the free lines to blocks that were cut: first to advice, then to the others in order."""
    left, found = space - sum(len(lines) for _, lines in drawn), list(drawn)
    for at in sorted(range(len(drawn)), key=lambda at: drawn[at][0][0] != "advice"):
        block, lines = drawn[at]
        if lines[-1].plain.endswith("…") and len(more := longer(block)) - len(lines) <= left:
            left -= len(more) - len(lines)
            found[at] = block, more
    return found


def _labeled_once(drawn: list[Drawn]) -> list[Text]:
    """Join the lines of all blocks; of neighbors with the same label only the first shows it."""
    joined, last = [], ""
    for (label, *_), lines in drawn:
        if label and label == last:
            lines[0].plain = " " * _LABEL + lines[0].plain[_LABEL:]
        last = label
        joined += lines
    return joined


def _ledger(items: Iterable[LedgerEntry]) -> str:
    """Return how the job's wall time was used, in order of time: the steps, and what takes 2 % or more."""
    used = [
        f"{one['text'].partition(';')[0]} {duration(one['seconds'])} ({percent(one['pct'])})"
        for one in items
        if one["pct"] >= 2 or one["item"] == "steps"
    ]
    return ", ".join(used) if len(used) > 1 else ""


def _changes(found: Iterable[ChangeEntry]) -> list[str]:
    """Return the last change that made steps longer until the end, if it costs enough of the loop's time."""
    lasting = [one for one in found if one["until_step"] is None]
    return [one["text"] for one in lasting if (one["cost_pct"] or 0.0) >= _COSTLY][-1:]


def _named_work(found: Iterable[NamedWorkEntry], part: str) -> str:
    """Return callbacks, annotations or phases that take much of the loop, the largest first."""
    large = [one for one in found if one["part"] == part and one["pct"] >= NAMED]
    return ", ".join(f"{one['name']} {percent(one['pct'])}" for one in large[:3])


def _unit(steps: StepSummary | None) -> str:
    """Return what a step is, unless it is what everybody expects."""
    unit = steps.get("unit") if steps else None
    return "" if unit in (None, PLAIN) else str(unit)


def _blocks(description: AnyDescription, width: int) -> Iterator[Block]:
    verdict = description["verdict"]
    failure = description["job"]["headline"]
    said = sentence_text(verdict, failure, description["steps"])
    if failure:
        yield ("", failure, "bold red", 4)
    if lost := unwritten(description):
        yield ("", lost, "yellow", 3)
    about_steps = cast("StepSummary | None", description.get("steps"))
    for text in filter(None, (trainings_text(about_steps), at_once_text(about_steps))):
        yield ("", text, "", 1)
    healthy = verdict["suspect"] == "healthy"
    style = "bold green" if healthy and not failure else "bold" if not failure else ""
    yield ("", said, style, 5)
    breakdown = description["breakdown"]
    if breakdown:
        yield ("", "", "", 1)
        yield ("", bar(breakdown, width - 2), "", 1)
        named = legend(breakdown, width - 2, description["not_seen"])
        yield from (("", line, "", 1) for line in named)
    if time := _ledger(cast("list[LedgerEntry]", description.get("ledger") or [])):
        yield ("time", time, "", 2)
    if on_gpu := gpu_times_text(cast("GpuTimesEntry | None", description.get("gpu_times"))):
        yield ("gpu", on_gpu, "", 2)
    work = cast("list[NamedWorkEntry]", description.get("named_work") or [])
    # A framework that computes in one piece names that piece; scripts name their phases.
    framework = cast("FrameworkFacts | None", description["job"].get("framework"))
    if (framework is None or framework["name"] == "pytorch") and (phases := _named_work(work, "compute")):
        yield ("phases", phases, "", 2)
    if calls := _named_work(work, "other"):
        yield ("calls", calls, "", 2)
    program = cast("ProgramEntry | None", description.get("program"))
    if program and (repeats := program["estimated_steps"]):
        yield ("estimated", repeats["text"], "", 2)
    if unit := _unit(about_steps):
        yield ("a step", f"is {unit}", "", 2)
    for text in _changes(cast("list[ChangeEntry]", description.get("changes") or [])):
        yield ("change", text, "", 2)
    stages = stages_text(description["dataloading"])
    if stages and (breakdown or {}).get("data_loading", 0.0) >= 1.0:
        yield ("data", stages, "", 2)
    # Without a bottleneck the issues come before the evidence.
    sick_only = verdict["suspect"] in ("healthy", "inconclusive")
    if sick_only:
        yield from _issues(description)
    # Facts that the stages or the sentence already contain are left out.
    facts = [
        fact["text"]
        for fact in verdict["evidence"]
        if fact.get("metric") not in ("dataloading.callable", *ABOUT_STEPS)
        and sentence(fact["text"]) not in verdict["sentence"]
    ]
    yield from (("evidence", text, "", 2) for text in facts[:3])
    if about := [fact["text"] for fact in verdict["evidence"] if fact.get("metric") in ABOUT_STEPS]:
        yield ("steps", "; ".join(about), "", 3)
    yield from (("advice", text, "bold", 2) for text in map(advice_text, verdict["advice"][:2]))
    seen = description["trace"] if "trace" in description else description["window"]
    if used := seen and seen.get("mfu"):
        text = (
            f"{percent(used['pct'])} of the peak of {used['device']} in {used['precision']} "
            f"({used['peak_tflops']:,.0f} TFLOP/s), of the operators whose shapes are known"
        )
        yield ("MFU", text, "", 2)
    if verdict["missing"]:
        yield ("not seen", "; ".join(verdict["missing"]), "", 1)
    if not sick_only:
        yield from _issues(description)
    if verdict["ruled_out"]:
        causes = "; ".join(f"{words(r['suspect'])} ({r['because']})" for r in verdict["ruled_out"])
        yield ("ruled out", causes, "bright_black", 2)


def _wrap(block: Block, out: Console, width: int, more: int = 0) -> list[Text]:
    """Return a block as lines with a label column and a text column; `more` raises the most lines."""
    from rich.text import Text

    label, content, style, most = block
    most += more
    indent = _LABEL if label else 1
    text = content if isinstance(content, Text) else Text(clean(content), style=style)
    lines = wrap(text, out, width - indent) or [Text()]
    if len(lines) > most:
        lines = lines[:most]
        last = lines[-1]
        last.truncate(width - indent - 1)
        # Rather without the last item of a list than without its number.
        whole = last.plain.rfind(", ")
        if whole > last.cell_len / 2:
            last.truncate(whole + len(", "))
        last.append("…")
    first = Text(f" {label:<{indent - 1}}"[:indent], style="bright_black")
    rest = Text(" " * indent)
    return [Text.assemble(first if i == 0 else rest, line) for i, line in enumerate(lines)]


def _facts(description: AnyDescription, space: int) -> str:
    """Return duration, steps, step time and ranks; only as many as fit into `space` columns."""
    from rich.cells import cell_len

    # The status, unless the headline says it.
    status = "" if description["job"]["headline"] else description["job"]["status"]
    ending = {
        "Stopped": "stopped after ",
        "InProgress": "running for ",
        "Ended": "ended, exit code unknown, after ",
        "Detached": "detached after ",
    }.get(status, "")
    facts = [ending + duration(description["job"]["duration_s"])]
    if steps := description["steps"]:
        facts.append(counted(steps["count"], "step"))
        if steps["mean_ms"] is not None:  # not the median: with two workers every other batch is ready
            facts.append(f"{milliseconds(steps['mean_ms'])} a step")
    if len(description["ranks"]) > 1:
        facts.append(f"{len(description['ranks'])} ranks")
    while len(facts) > 1 and sum(map(cell_len, facts)) + 3 * (len(facts) - 1) > space:
        facts.pop()
    return " · ".join(facts)


def _issues(description: AnyDescription) -> Iterator[Block]:
    # Notes without severity are in the description only.
    found = [one for one in ordered(description["rules"]) if one.severity in _SEVERITY]
    for one in found[:_MOST_ISSUES]:
        yield ("issues", issue_text(one), _SEVERITY[one.severity], 2)
        if one.symptoms:
            also = ", ".join(dict.fromkeys(symptom.rule for symptom in one.symptoms))
            yield ("issues", f"related: {also}", "bright_black", 1)
    if len(found) > _MOST_ISSUES:
        rest = ", ".join(dict.fromkeys(one.rule for one in found[_MOST_ISSUES:]))
        yield ("issues", f"and {len(found) - _MOST_ISSUES} more: {rest}", "bright_black", 1)
    broken = [rule["name"] for rule in description["rules"] if rule["status"] == "Error"]
    if broken:
        yield ("rules", f"could not be evaluated: {', '.join(broken)}", "yellow", 1)


def _bill(description: AnyDescription) -> Iterator[Block]:
    if "bill" not in description or not description["bill"]:
        return
    for at, text in enumerate(islice(bill_lines(description["bill"]), _MOST_BILL)):
        yield ("" if at else "cost", text, "bright_black", 1)


def _cost(description: AnyDescription) -> Iterator[Block]:
    if "cost" in description:
        yield from _recording_cost(description["cost"])
    if skipped := description["skipped"]:
        # Names of files are longer than the line; `holter describe` writes them in full.
        table, slash, _ = skipped[0]["file"].partition("/")
        what = f"a file of {table}" if slash else table
        yield ("skipped", f"{what}{_more(len(skipped) - 1)} {skipped[0]['why']}", "yellow", 1)


def _recording_cost(cost: RecordingCost) -> Iterator[Block]:
    facts = []
    if cost["recorder_pct"] is not None:
        facts.append(f"recorder {percent(cost['recorder_pct'])}")
    if cost["agent_cpu_pct"] is not None:
        facts.append(f"agent {percent(cost['agent_cpu_pct'])} of a core")
    if cost["bytes"] is not None:
        facts.append(size(cost["bytes"]))
    dropped = cost["dropped"]
    if dropped is not None:
        facts.append(f"{counted(dropped, 'record')} dropped" if dropped else "nothing dropped")
    if facts:
        yield ("holter", ", ".join(facts), "yellow" if dropped else "bright_black", 1)
    if faults := cost["faults"]:
        text = f"internal error, training not touched: {faults[0]['where']}: {faults[0]['error']}"
        yield ("" if facts else "holter", text + _more(len(faults) - 1), "yellow", 1)


def _more(count: int) -> str:
    return f" (and {count} more)" if count > 0 else ""
