"""`holter describe JOB`: show everything that is known about one job."""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING, cast

from holter.analysis.verdict.evidence import counted, function_at
from holter.cli import options, output
from holter.cli.bar import bar, legend
from holter.cli.job_lookup import readable_job
from holter.cli.output import clean
from holter.cli.trace_sections import operators
from holter.schema.phases import JOB_PHASES
from holter.views.document.bill import bill_lines
from holter.views.document.cost import unwritten
from holter.views.document.saved_tensors import saved_text
from holter.views.issues import not_judged, ordered
from holter.views.wording import (
    advice_text,
    at_once_text,
    duration,
    gpus_text,
    issue_text,
    milliseconds,
    number_text,
    percent,
    reading_text,
    sentence_text,
    severity_text,
    size,
    stages_text,
    status_text,
    trainings_text,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from holter.cli.output import Section
    from holter.views.document.types import Description
    from holter.views.document.types.job import NodeFacts, RecordingCost, SchedulerFacts
    from holter.views.document.types.rules import RuleResult
    from holter.views.document.types.training import LoadingSummary, MetricStatistics, StepSummary
    from holter.views.document.types.wall_time import GpuTimesEntry, LedgerPart
    from holter.views.issues import IssueGroup

ABOUT = "Show everything that is known about a job, finished or running."
EXAMPLES = """  holter describe latest
  holter describe train-20260131-120000 --json | jq .verdict.sentence
  holter describe holter-jobs/train-20260131-120000"""

_MOST_METRICS = 40
_SEVERITY = {"critical": "bold red", "warning": "yellow", "info": ""}


def main(words_: list[str]) -> int:
    """Run `holter describe`."""
    parser = options.Parser("describe", ABOUT, EXAMPLES, "job", "--store", "--price", "--json")
    given = parser.read(words_)
    from holter.views.document.description import describe

    description = describe(readable_job(given.job, given.store), price=options.price(given.price))
    if given.json:
        output.write_json(description)
    else:
        show(description, output.console(sys.stdout))
    return 0


def show(description: Description, out: Console) -> None:
    """Print a description, section by section; a section without data is left out."""
    output.write_sections(out, _sections(description, out.width))


def _sections(d: Description, width: int) -> Iterator[Section]:
    yield d["job"]["name"], _job(d)
    yield "Verdict", _verdict(d)
    yield "Where the job's time went", _ledger(d)
    if d["breakdown"]:
        drawn = [bar(d["breakdown"], width - 2), *legend(d["breakdown"], width - 2, d["not_seen"])]
        whole = "the accelerators' time" if "trace" in d else "the training loop's time after warm-up"
        yield "Where a step's time goes", [*drawn, f"share of {whole}"]
    yield "Parts of a step on the GPU", _on_gpu(d["gpu_times"])
    if d["steps"]:
        yield "Steps", _steps(d, d["steps"])
    yield "What changed", [one["text"] for one in d["changes"]]
    yield "Training metrics", map(number_text, d["numbers"])
    if d["tensors"]:
        yield "Tensors saved", [saved_text(d["tensors"])]
    if d["dataloading"]:
        yield "Data loading", _loading(d["dataloading"])
    yield operators(d)
    if d["phases"]:
        yield "Phases of the job", _phases(cast("Mapping[str, float | None]", d["phases"]))
    yield "Rules", _rules(d["rules"])
    if d["utilization"]:
        yield "The machine", [_utilization(d["utilization"])]
    if d["bill"]:
        yield "What the job cost", bill_lines(d["bill"])
    yield "Overhead", _cost(d["cost"])
    yield "Files that could not be read", [f"{entry['file']}: {entry['why']}" for entry in d["skipped"]]


def _on_gpu(found: GpuTimesEntry | None) -> Iterator[str]:
    if found:
        for one in found["parts"]:
            on_gpu = f"{words(one['part'])} {milliseconds(one['gpu_ms'])} on the GPU ({percent(one['pct'])})"
            yield f"{on_gpu}, {milliseconds(one['host_ms'])} on the host"
        yield f"means of {counted(found['steps'], 'measured step')}; all other times are those of the host"


def _ledger(d: Description) -> Iterator[str]:
    for one in d["ledger"]:
        yield f"{duration(one['seconds'])} ({percent(one['pct'])}) {one['text']}"
        yield from (f"- {below}" for below in _below(one["children"]))
    for thread in d["threads"]:
        yield (
            f"training thread of rank {thread['rank']}, {words(thread['phase'])}: on a core "
            f"{percent(thread['running_pct'])}, waiting for a core "
            f"{percent(thread['waiting_for_core_pct'])}, blocked {percent(thread['blocked_pct'])}"
        )
    for own in d["own_code"]:
        if own["pct"] >= 1:
            calls = f", calling {own['calls']}" if own["calls"] else ""
            place = function_at(own["function"], own["file"], own["line"])
            waits = ", which waits for the device" if own["waits_in"] == "device" else ""
            yield f"own code: {place}{calls}{waits}: {percent(own['pct'])} of the loop"


def _below(parts: Iterable[LedgerPart]) -> Iterator[str]:
    """Return callbacks, loggers and annotations of an item, with the part of the step that holds them."""
    for part in parts:
        if part["item"] == "named":
            yield f"{part['text']}: {duration(part['seconds'])} ({percent(part['pct'])})"
        yield from (f"{part['text']}, {text}" for text in _below(part["children"]))


def _job(d: Description) -> Iterator[str]:
    job = d["job"]
    began = time.localtime(job["start"] / 1e9) if job["start"] else None
    when = time.strftime("%Y-%m-%d %H:%M:%S", began) if began else "unknown"
    code = f", exit code {job['exit_code']}" if job["exit_code"] is not None else ""
    by = f", {job['signal']}" if job["signal"] else ""
    took = "running for" if job["status"] == "InProgress" else "took"
    yield f"{status_text(job['status'])}{code}{by}; began {when}, {took} {duration(job['duration_s'])}"
    if job["command"]:
        yield f"command: {shlex.join(map(str, job['command']))}"
    if scheduler := job["scheduler"]:
        yield _scheduler(scheduler)
    framework = job["framework"]
    if framework:
        known = (framework.get("name"), framework.get("version"), framework.get("device"))
        yield f"framework: {' '.join(filter(None, known))}"
    if d["ranks"]:
        yield f"ranks: {', '.join(map(str, d['ranks'][:16]))}{' ...' if len(d['ranks']) > 16 else ''}"
    for node in d["nodes"]:
        cpus = counted(node["cpus"], "CPU") if node["cpus"] else "CPUs unknown"
        part = f"; {_part(node)}" if len(d["nodes"]) > 1 else ""
        memory = f"{size(node['memory_bytes'])} memory"
        yield f"node {node['node']}: {cpus}, {memory}, {gpus_text(node['gpus'])}{part}"
    if (expected := job.get("nodes_expected") or 0) > len(d["nodes"]):
        yield f"{len(d['nodes'])} of {expected} nodes recorded"


def _scheduler(facts: SchedulerFacts) -> str:
    """Return the line about the scheduler's job: `slurm job 7_3, step 0, restarted once; ends 18:00:00`."""
    parts = [f"{facts['name']} job {facts['job']}"]
    if facts["step"] is not None:
        parts.append(f"{'index' if facts['name'] == 'kubernetes' else 'step'} {facts['step']}")
    if facts["restarts"]:
        parts.append(f"requeued {counted(facts['restarts'], 'time')}")
    if facts["ends"]:
        ends = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts["ends"] / 1e9))
        parts.append(f"its time limit ends {ends}")
    return f"scheduler: {', '.join(parts)}"


def _part(node: NodeFacts) -> str:
    """Return status, ranks and clock skew of one node of several."""
    parts = [str(node["status"])] if node.get("status") else []
    if ranks := node.get("ranks"):
        parts.append(f"rank {', '.join(map(str, ranks[:8]))}{' ...' if len(ranks) > 8 else ''}")
    if clock := node.get("clock"):
        against = f"clock against node {clock['against']}"
        if clock["skew_ns"] is None:
            parts.append(f"{against} unknown: {clock['why']}")
        else:
            apart, error = clock["skew_ns"] / 1e6, (clock["error_ns"] or 0) / 1e6
            many = counted(clock["collectives"], clock["source"].removesuffix("s"))
            parts.append(
                f"{against}: {apart:+.3f} ms and {clock['drift_ppm'] or 0:+.2f} ppm, at most {error:.3f} ms "
                f"wrong, from {many}"
            )
    return "; ".join(parts) or "no other facts"


def _verdict(d: Description) -> Iterator[str | Text]:
    from rich.text import Text

    verdict = d["verdict"]
    if d["job"]["headline"]:
        yield Text(clean(d["job"]["headline"]), style="bold red")
    if lost := unwritten(d):
        yield Text(clean(lost), style="yellow")
    yield sentence_text(verdict, d["job"]["headline"], d["steps"])
    for fact in verdict["evidence"]:
        yield f"- {fact['text']}"
    for advice in verdict["advice"]:
        why = f" ({advice['why']})" if advice.get("why") else ""
        yield f"{advice_text(advice)}{why}"
    for other in verdict["ruled_out"]:
        yield f"ruled out: {words(other['suspect'])}, because {other['because']}"
    if verdict["missing"]:
        yield f"not seen: {'; '.join(verdict['missing'])}"


def _steps(d: Description, steps: StepSummary) -> Iterator[str]:
    warmup = f", {steps['warmup']} of them warm-up" if steps["warmup"] else ""
    yield f"{counted(steps['count'], 'step')}{warmup}"
    if unit := steps.get("unit"):
        yield f"a step is {unit}"
    yield from filter(None, (trainings_text(steps), at_once_text(steps)))
    if steps["mean_ms"] is not None:
        shown = ", ".join(
            f"{key.removesuffix('_ms')} {milliseconds(steps[key])}"
            for key in ("mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms")
        )
        yield f"{shown}; {steps['per_second']:.3g} a second"
    for outlier in steps["outliers"][:5]:
        rank = f" on rank {outlier['rank']}" if len(d["ranks"]) > 1 else ""
        cause = f", mostly in {words(outlier['cause'])}" if outlier.get("cause") else ""
        yield f"outlier: step {outlier['step']}{rank} took {milliseconds(outlier['duration_ms'])}{cause}"
    more = steps.get("outlier_count", len(steps["outliers"])) - 5
    if more > 0:
        yield f"and {counted(more, 'more outlier')}"


def _loading(loading: LoadingSummary) -> Iterator[str]:
    if stages := stages_text(loading):
        yield f"{stages} (percent of the loop)"
    known = {
        "workers": loading["workers"],
        "pinned memory": {True: "yes", False: "no", None: None}[loading["pin_memory"]],
        "prefetch factor": loading["prefetch_factor"],
    }
    values = [f"{name} {value}" for name, value in known.items() if value is not None]
    if values:
        yield ", ".join(values)


def _phases(phases: Mapping[str, float | None]) -> Iterator[str]:
    for name in JOB_PHASES:
        if phases.get(f"{name}_s") is not None:
            share = phases.get(f"{name}_pct")
            of_all = f", {percent(share)}" if share is not None else ""
            yield f"{words(name)} {duration(phases[name + '_s'])}{of_all}"


def _utilization(rows: list[MetricStatistics]) -> Table:
    """Return a table with one row per metric and device."""
    from rich.table import Table

    nodes = {row["node"] for row in rows}
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="bright_black")
    if len(nodes) > 1:
        table.add_column("node", overflow="ellipsis", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    for name in ("min", "p50", "p95", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True, style="bright_black")
    for row in rows[:_MOST_METRICS]:
        name = f"{row['metric']} {row['device']}".rstrip()
        unit = "" if row["unit"].startswith("bytes") else row["unit"]
        cells = [name, *(reading_text(row[key], row["unit"]) for key in ("min", "p50", "p95", "max")), unit]
        table.add_row(*([row["node"], *cells] if len(nodes) > 1 else cells))
    if len(rows) > _MOST_METRICS:
        table.add_row(f"... {len(rows) - _MOST_METRICS} more with --json")
    return table


def _rules(rules: list[RuleResult]) -> Iterator[str | Text]:
    from rich.text import Text

    if not rules:
        yield "No rule has judged this job. Judge it now: holter rules run JOB"
        return
    for found in ordered(rules):
        yield from _issue(found)
        if found.symptoms:
            yield Text("  Related:")
        for symptom in found.symptoms:
            yield from (Text.assemble("    ", line) for line in _issue(symptom, advice=False))
    for rule in rules:
        if rule["status"] not in ("NoIssuesFound", "IssuesFound"):
            why = f": {rule['error']}" if rule.get("error") else ""
            yield f"{rule['name']}: {status_text(rule['status'])}{why}"
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
    yield Text(clean(f"{severity_text(severity)}: {issue_text(found)}"), style=style)
    if advice and found.issue.get("advice"):
        yield Text(clean(f"→ {found.issue['advice']}"))
    for done in found.issue.get("actions") or ():
        yield Text(clean(f"· {done['name']}: {done['result']}: {done.get('text', '')}"))


def _cost(cost: RecordingCost) -> Iterator[str]:
    values = [
        f"{name}: {text}"
        for name, value, text in (
            ("recorder", cost["recorder_pct"], f"{percent(cost['recorder_pct'])} of the training loop"),
            ("agent and evaluator", cost["agent_cpu_pct"], f"{percent(cost['agent_cpu_pct'])} of one core"),
            ("stored", cost["bytes"], size(cost["bytes"])),
            ("per step", cost["bytes_per_step"], size(cost["bytes_per_step"])),
            ("spans", cost["spans"], f"{cost['spans'] or 0:,}"),
            ("records dropped", cost["dropped"], f"{cost['dropped'] or 0:,}"),
        )
        if value is not None
    ]
    yield "; ".join(values) or "unknown"
    for fault in cost["faults"]:
        yield f"internal error in {fault['where']}: {fault['error']}"
