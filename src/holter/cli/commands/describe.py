"""`holter describe JOB`: show everything that is known about one job."""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING, Any

from holter.analysis.verdict.evidence import counted
from holter.cli import options, output
from holter.cli.bar import bar, legend
from holter.cli.detail import operators
from holter.cli.job_lookup import check_readable, find_job
from holter.cli.machine import utilization
from holter.cli.output import clean
from holter.schema.phases import JOB_PHASES
from holter.views.document.bill import bill_lines
from holter.views.document.cost import unwritten
from holter.views.document.saved_tensors import saved_text
from holter.views.issues import not_judged, ordered
from holter.views.wording import (
    advice_text,
    duration,
    gpus_text,
    issue_text,
    milliseconds,
    number_text,
    percent,
    size,
    stages_text,
    trainings_text,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console
    from rich.text import Text

    from holter.store.job import JobFolder
    from holter.views.document.types import Description
    from holter.views.document.types.rules import RuleResult
    from holter.views.issues import IssueGroup

ABOUT = "Show everything that is known about a job, finished or running."
EXAMPLES = """  holter describe latest
  holter describe train-20260131-120000 --json | jq .verdict.sentence
  holter describe holter-jobs/train-20260131-120000"""

_SEVERITY = {"critical": "bold red", "warning": "yellow", "info": ""}


def main(words_: list[str]) -> int:
    """Run `holter describe`."""
    parser = options.Parser("describe", ABOUT, EXAMPLES, "job", "--store", "--price", "--json")
    given = parser.read(words_)
    description = described(find_job(given.job, given.store), options.price(given.price))
    if given.json:
        output.write_json(description)
    else:
        show(description, output.console(sys.stdout))
    return 0


def described(folder: JobFolder, price: float | None = None) -> Description:
    """Describe a job; raises `Refusal` with code 65 when its manifest cannot be read."""
    from holter.store.trial import Trial
    from holter.views.document.description import describe

    check_readable(folder)
    return describe(Trial(folder), price=price)


def show(description: Mapping[str, Any], out: Console) -> None:
    """Print a description, section by section; a section without data is left out."""
    from rich.text import Text

    for title, lines in _sections(description, out.width):
        output.write(out, Text(f"\n{title}" if title != description["job"]["name"] else title, style="bold"))
        for line in lines:
            if not isinstance(line, str | Text):
                out.print(line)
                continue
            text = line if isinstance(line, Text) else Text(clean(line))
            indent = len(text.plain) - len(text.plain.lstrip())
            for piece in text[indent:].wrap(out, out.width - 2 - indent):
                piece.rstrip()
                output.write(out, Text.assemble(" " * (2 + indent), piece))


def _sections(d: Mapping[str, Any], width: int) -> Iterator[tuple[str, list[Any]]]:
    yield (d["job"]["name"], list(_job(d)))
    yield ("Verdict", list(_verdict(d)))
    if d["breakdown"]:
        lines: list[Any] = [bar(d["breakdown"], width - 2), *legend(d["breakdown"], width - 2, d["not_seen"])]
        whole = "the accelerators' time" if "trace" in d else "the training loop's time after warm-up"
        lines.append(f"share of {whole}")
        yield ("Where a step's time goes", lines)
    if d["steps"]:
        yield ("Steps", list(_steps(d)))
    if d.get("numbers"):
        yield ("Numbers", [number_text(one) for one in d["numbers"]])
    if d["tensors"]:
        yield ("Tensors saved", [saved_text(d["tensors"])])
    if stages_text(d["dataloading"]) or (d["dataloading"] or {}).get("workers") is not None:
        yield ("Data loading", list(_loading(d)))
    if d["operators"]:
        yield operators(d)
    if d["phases"]:
        yield ("Phases of the job", list(_phases(d["phases"])))
    yield ("Rules", list(_rules(d["rules"])))
    if d["utilization"]:
        yield ("The machine", [utilization(d["utilization"])])
    if d["bill"]:
        yield ("What the job cost", list(bill_lines(d["bill"])))
    yield ("What holter cost", list(_cost(d["cost"])))
    if d["skipped"]:
        listed = [f"{entry['file']}: {entry['why']}" for entry in d["skipped"]]
        yield ("Files that could not be read", listed)


def _job(d: Mapping[str, Any]) -> Iterator[str]:
    job = d["job"]
    began = time.localtime(job["start"] / 1e9) if job["start"] else None
    when = time.strftime("%Y-%m-%d %H:%M:%S", began) if began else "unknown"
    code = f", exit code {job['exit_code']}" if job["exit_code"] is not None else ""
    by = f", {job['signal']}" if job["signal"] else ""
    took = "running for" if job["status"] == "InProgress" else "took"
    yield f"{job['status']}{code}{by}; began {when}, {took} {duration(job['duration_s'])}"
    if job["command"]:
        yield f"command: {shlex.join(map(str, job['command']))}"
    framework = job["framework"]
    if framework:
        known = [str(framework[key]) for key in ("name", "version", "device") if framework.get(key)]
        yield f"framework: {' '.join(known)}"
    if d["ranks"]:
        yield f"ranks: {', '.join(map(str, d['ranks'][:16]))}{' ...' if len(d['ranks']) > 16 else ''}"
    for node in d["nodes"]:
        cpus = counted(node["cpus"], "CPU") if node["cpus"] else "CPUs unknown"
        part = f"; {_part(node)}" if len(d["nodes"]) > 1 else ""
        memory = f"{size(node['memory_bytes'])} memory"
        yield f"node {node['node']}: {cpus}, {memory}, {gpus_text(node['gpus'])}{part}"
    if (expected := job.get("nodes_expected") or 0) > len(d["nodes"]):
        yield f"{len(d['nodes'])} of {expected} nodes recorded"


def _part(node: Mapping[str, Any]) -> str:
    """Return status, ranks and clock skew of one node of several."""
    said = [str(node["status"])] if node.get("status") else []
    if ranks := node.get("ranks"):
        said.append(f"rank {', '.join(map(str, ranks[:8]))}{' ...' if len(ranks) > 8 else ''}")
    if clock := node.get("clock"):
        against = f"clock against node {clock['against']}"
        if clock["skew_ns"] is None:
            said.append(f"{against} unknown: {clock['why']}")
        else:
            apart, spread = clock["skew_ns"] / 1e6, clock["spread_ns"] / 1e6
            said.append(
                f"{against}: {apart:+.3f} ms, spread {spread:.3f} ms of "
                f"{counted(clock['collectives'], 'collective')}"
            )
    return "; ".join(said) or "no other facts"


def _verdict(d: Mapping[str, Any]) -> Iterator[Any]:
    from rich.text import Text

    verdict = d["verdict"]
    if d["job"]["headline"]:
        yield Text(clean(d["job"]["headline"]), style="bold red")
    if lost := unwritten(d):
        yield Text(clean(lost), style="yellow")
    yield verdict["sentence"]
    for fact in verdict["evidence"]:
        yield f"- {fact['text']}"
    for advice in verdict["advice"]:
        why = f" ({advice['why']})" if advice.get("why") else ""
        yield f"{advice_text(advice)}{why}"
    for other in verdict["ruled_out"]:
        yield f"ruled out: {words(other['suspect'])}, because {other['because']}"
    if verdict["missing"]:
        yield f"not seen: {'; '.join(verdict['missing'])}"


def _steps(d: Mapping[str, Any]) -> Iterator[str]:
    steps = d["steps"]
    warmup = f", {steps['warmup']} of them warm-up" if steps["warmup"] else ""
    yield f"{counted(steps['count'], 'step')}{warmup}"
    if said := trainings_text(steps):
        yield said
    if steps["mean_ms"] is not None:
        names = ("mean", "p50", "p90", "p95", "p99", "max")
        shown = ", ".join(f"{name} {milliseconds(steps[name + '_ms'])}" for name in names)
        yield f"{shown}; {steps['per_second']:.3g} a second"
    for outlier in steps["outliers"][:5]:
        rank = f" on rank {outlier['rank']}" if len(d["ranks"]) > 1 else ""
        cause = f", mostly in {words(outlier['cause'])}" if outlier.get("cause") else ""
        yield f"outlier: step {outlier['step']}{rank} took {milliseconds(outlier['duration_ms'])}{cause}"
    more = steps.get("outlier_count", len(steps["outliers"])) - 5
    if more > 0:
        yield f"and {counted(more, 'more outlier')}"


def _loading(d: Mapping[str, Any]) -> Iterator[str]:
    loading = d["dataloading"]
    stages = stages_text(loading)
    if stages:
        yield f"{stages} (percent of the loop)"
    known = {"workers": "workers", "pin_memory": "pinned memory", "prefetch_factor": "prefetch factor"}
    values = [f"{text} {_value(loading[key])}" for key, text in known.items() if loading.get(key) is not None]
    if values:
        yield ", ".join(values)


def _value(value: Any) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _phases(phases: Mapping[str, Any]) -> Iterator[str]:
    for name in JOB_PHASES:
        if phases.get(f"{name}_s") is not None:
            share = phases.get(f"{name}_pct")
            of_all = f", {percent(share)}" if share is not None else ""
            yield f"{words(name)} {duration(phases[name + '_s'])}{of_all}"


def _rules(rules: list[RuleResult]) -> Iterator[Any]:
    from rich.text import Text

    if not rules:
        yield "No rule has judged this job. Judge it now: holter rules run JOB"
        return
    for found in ordered(rules):
        yield from _issue(found)
        if found.symptoms:
            yield Text("  from the same cause:")
        for symptom in found.symptoms:
            for line in _issue(symptom, advice=False):
                yield Text.assemble("    ", line)
    for rule in rules:
        if rule["status"] not in ("NoIssuesFound", "IssuesFound"):
            yield f"{rule['name']}: {rule['status']}{': ' + str(rule['error']) if rule.get('error') else ''}"
        if rule.get("more_issues"):
            yield f"{rule['name']}: {counted(rule['more_issues'], 'more issue')}, not listed"
    unseen = not_judged(rules)
    quiet = [r["name"] for r in rules if r["status"] == "NoIssuesFound" and r["name"] not in unseen]
    if quiet:
        yield f"no issue: {', '.join(quiet)}"
    if unseen:
        yield f"could not judge (holter rules run JOB says why): {', '.join(unseen)}"


def _issue(found: IssueGroup, *, advice: bool = True) -> Iterator[Text]:
    from rich.text import Text

    severity = found.issue["severity"]
    style = "" if found.over else _SEVERITY.get(severity, "")
    yield Text(clean(f"{severity}: {issue_text(found)}"), style=style)
    if advice and found.issue.get("advice"):
        yield Text(clean(f"→ {found.issue['advice']}"))
    for done in found.issue.get("actions") or ():
        yield Text(clean(f"· {done['name']}: {done['result']}: {done.get('text', '')}"))


def _cost(cost: Mapping[str, Any]) -> Iterator[str]:
    known = [
        ("recorder_pct", "recorder: {} of the training loop", percent),
        ("agent_cpu_pct", "agent and evaluator: {} of one core", percent),
        ("bytes", "stored: {}", size),
        ("bytes_per_step", "per step: {}", size),
        ("spans", "spans: {}", lambda count: f"{count:,}"),
        ("dropped", "records dropped: {}", lambda count: f"{count:,}"),
    ]
    said = [text.format(form(cost[key])) for key, text, form in known if cost.get(key) is not None]
    yield "; ".join(said) or "unknown"
    for fault in cost["faults"]:
        yield f"internal error in {fault.get('where', '')}: {fault.get('error', '')}"
