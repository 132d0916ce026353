"""Text and tables of the report and of the pages, from the description of a job."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

from holter.analysis.verdict.evidence import counted, function_at, sentence
from holter.drawing.markup import html, tag
from holter.drawing.parts import bar_of_parts
from holter.drawing.pieces import prose
from holter.rules import catalogue
from holter.views.document.cost import unwritten
from holter.views.issues import coverage, not_judged, ordered
from holter.views.jobs import RUNNING
from holter.views.wording import (
    at_once_text,
    duration,
    gpus_text,
    issue_text,
    milliseconds,
    percent,
    place_text,
    reading_text,
    sentence_text,
    severity_text,
    size,
    stages_text,
    status_text,
    value_text,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holter.views.document.types import Description
    from holter.views.document.types.job import JobSummary, RecordingCost, SkippedFile
    from holter.views.document.types.rules import RuleResult
    from holter.views.document.types.training import LoadingSummary, MetricStatistics, StepSummary
    from holter.views.document.types.verdict import VerdictAdvice
    from holter.views.document.types.wall_time import (
        ChangeEntry,
        GpuTimesEntry,
        LedgerEntry,
        NamedWorkEntry,
        OwnCodeEntry,
    )
    from holter.views.issues import IssueGroup


Percentile = Literal["min", "p50", "p90", "p95", "p99", "max"]
PERCENTILES: tuple[Percentile, ...] = ("min", "p50", "p90", "p95", "p99", "max")
_StepTime = Literal["mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms"]
_STEP_TIMES: tuple[_StepTime, ...] = ("mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms")
_MOST_ROWS = 400
_MOST_ISSUES = 200
_MOST_LETTERS = 240
"""Letters of a command that are shown; a click opens the rest."""


def head(job: JobSummary) -> Markup:
    """Return the name, status, start, duration and command of a job."""
    status = status_text(job["status"]) if job["status"] else "status unknown"
    took = "running for" if job["status"] in RUNNING else "took"
    text = f"{status} · began {clock(job['start'])} · {took} {duration(job['duration_s'])}"
    command = _command(shlex.join(map(str, job["command"])))
    return html(tag("h1", job["name"]), tag("p", text, tag("br"), command, class_="dim"))


def clock(at_ns: int | None) -> str:
    """Write a moment as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ns / 1e9)) if at_ns else "unknown"


def _command(text: str) -> Markup:
    """Write a command; a long command can be opened."""
    if len(text) <= _MOST_LETTERS:
        return tag("code", text)
    short = text[: _MOST_LETTERS - 1]
    return tag("details", tag("summary", tag("code", short, "…")), tag("code", text))


def verdict(told: Description) -> Markup:
    """Return the verdict: the problem, its evidence, advice, excluded suspects and missing measurements."""
    found = told["verdict"]
    mood = {"healthy": "", "inconclusive": "unsure"}.get(found["suspect"], "sick")
    # A job that broke is not well, however fast it was.
    mood = "sick" if told["job"]["headline"] or told["job"]["status"] == "Failed" else mood
    return tag("section", *_verdict_parts(told), class_=f"verdict {mood}")


def _verdict_parts(told: Description) -> Iterator[Markup]:
    found = told["verdict"]
    if told["job"]["headline"]:
        yield tag("p", told["job"]["headline"], class_="headline")
    if lost := unwritten(told):
        yield tag("p", lost, class_="headline")
    headline = told["job"]["headline"]
    said = sentence_text(found, headline, told["steps"])
    yield tag("p", said, class_="note" if headline else "said")
    yield bullets(fact["text"] for fact in found["evidence"])
    if found["advice"]:
        yield tag("h3", "Advice")
        yield tag("ul", *map(advice, found["advice"]))
    if found["ruled_out"]:
        yield tag("h3", "Ruled out")
        yield bullets(f"{words(one['suspect'])}: {one['because']}" for one in found["ruled_out"])
    if found["missing"]:
        yield tag("h3", "Not seen")
        yield bullets(found["missing"])


def advice(one: VerdictAdvice) -> Markup:
    """Return one advice: the step time that it promises, what to do, and how the time was computed."""
    expected = one["expected_step_ms"]
    promised = "" if expected is None else html(tag("b", f"{milliseconds(expected)} a step"), ": ")
    why = html(" ", tag("span", "(", prose(one["why"]), ")", class_="dim")) if one["why"] else ""
    return tag("li", promised, prose(one["text"]), why)


def job(told: Description) -> Markup:
    """Return what ran, where, and how it ended."""
    of = told["job"]
    exit_code = f", exit code {of['exit_code']}" if of["exit_code"] is not None else ""
    rows: list[tuple[str, object]] = [
        ("status", status_text(of["status"]) + exit_code),
        ("signal", of["signal"]),
        ("framework", " ".join(str(value) for value in (of["framework"] or {}).values() if value)),
        ("ranks", len(told["ranks"]) or None),
    ]
    for node in told["nodes"]:
        cpus = counted(node["cpus"], "CPU") if node["cpus"] else "CPUs unknown"
        text = f"{cpus}, {size(node['memory_bytes'])} memory, {gpus_text(node['gpus'])}"
        rows.append((f"node {node['node']}", text))
    return table(("", ""), [(name, value) for name, value in rows if value not in (None, "")])


def breakdown(
    shares: Mapping[str, float], not_seen: Iterable[str] = (), dataloading: LoadingSummary | None = None
) -> Markup:
    """Draw the split of a step as one bar, and name its parts."""
    parts = [(part, share) for part, share in shares.items() if share]
    texts = {part: f"{words(part)} {percent(share)}" for part, share in parts}
    listed = [tag("li", tag("i", class_=f"p-{part}"), text) for part, text in texts.items()]
    listed += [tag("li", f"{words(part)}: not seen") for part in not_seen]
    whole = "GPU time" if "idle" in shares else "the training loop's wall time after warm-up"
    inside = stages_text(dataloading)
    return html(
        bar_of_parts(shares, texts, "split of a step"),
        tag("ul", *listed, class_="legend"),
        tag("p", f"Share of {whole}; overlaps counted once.", class_="note"),
    ) + (tag("p", "Data loading: ", inside, ".") if inside else "")


def ledger(items: Sequence[LedgerEntry]) -> Markup:
    """Return how the job's wall time was used; nothing without steps."""
    if not items:
        return Markup()
    rows = [(one["text"], duration(one["seconds"]), percent(one["pct"])) for one in items]
    return table(("", "time", "share"), rows, numbers=(1, 2))


def own_code(found: Sequence[OwnCodeEntry]) -> Markup:
    """Return the functions that run outside all known parts of a step, from 1 % of the loop on."""
    rows = [
        (
            function_at(one["function"], one["file"], one["line"]),
            one["calls"],
            "data loading" if one["data_loading"] else one["waits_in"] or "",
            percent(one["pct"]),
        )
        for one in found
        if one["pct"] >= 1
    ]
    if not rows:
        return Markup()
    heads = ("function", "calls", "waits for", "share of the loop")
    return table(heads, rows, numbers=(3,))


def named_work(found: Sequence[NamedWorkEntry]) -> Markup:
    """Return callbacks, loggers, collectives and annotations within the steps; nothing without any."""
    if not found:
        return Markup()
    rows = [(one["name"], words(one["part"]), percent(one["pct"])) for one in found]
    heads = ("callback, logger, collective or annotation", "part of a step", "share of the loop")
    return table(heads, rows, numbers=(2,))


def gpu_times(found: GpuTimesEntry | None) -> Markup:
    """Return the parts of a step on the GPU beside those on the host; nothing if no step was measured."""
    if not found:
        return Markup()
    rows = [
        (words(one["part"]), milliseconds(one["gpu_ms"]), percent(one["pct"]), milliseconds(one["host_ms"]))
        for one in found["parts"]
    ]
    rows.append(("step", milliseconds(found["gpu_ms"]), percent(100.0), milliseconds(found["host_ms"])))
    said = (
        f"Means of {found['steps']:,} measured steps, between CUDA events on the stream of the training. "
        "All other times on this page are times of the host, which starts work and does not wait for it."
    )
    if found["left_out"]:
        said += f" {found['left_out']:,} more steps could not be read."
    heads = ("part of a step", "on the GPU", "share", "on the host")
    return html(tag("h3", "On the GPU"), tag("p", said, class_="note"), table(heads, rows, numbers=(1, 2, 3)))


def changes(found: Sequence[ChangeEntry]) -> Markup:
    """Return since when steps take longer and resources grow; nothing without changes."""
    if not found:
        return Markup()
    return tag("ul", *(tag("li", one["text"]) for one in found))


def steps(found: StepSummary | None) -> Markup:
    """Give the statistics of step times, and the longest outliers."""
    if not found:
        return tag("p", "No steps were recorded.", class_="note")
    heads = ("steps", "warm-up", "mean", "p50", "p90", "p95", "p99", "max", "per second")
    times = [milliseconds(found[key]) for key in _STEP_TIMES]
    pace = f"{found['per_second']:.3g}" if found["per_second"] else ""
    text = table(heads, [(f"{found['count']:,}", found["warmup"], *times, pace)], numbers=range(9))
    if note := at_once_text(found):
        text = html(text, tag("p", sentence(note), class_="note"))
    if not found["outliers"]:
        return text
    longest = [
        (
            f"{one['step']:,}",
            one["rank"],
            *(milliseconds(ms) for ms in (one["duration_ms"], one["extra_ms"])),
            words(one["cause"] or ""),
        )
        for one in found["outliers"]
    ]
    drawn = table(("step", "rank", "duration", "longer by", "mostly in"), longest, numbers=range(4))
    count = found["outlier_count"]
    most = f" (slowest {len(longest)})" if count > len(longest) else ""
    title = tag("summary", counted(count, "slow step"), most)
    return html(text, tag("details", title, drawn, class_="more"))


def machine(rows: Sequence[MetricStatistics]) -> Markup:
    """Give the statistics of each metric, as a table to open."""
    if not rows:
        return tag("p", "No machine samples were taken.", class_="note")
    cells = [
        (
            row["node"],
            f"{row['metric']} {row['device']}".strip(),
            *(reading_text(row[key], row["unit"]) for key in PERCENTILES),
            "" if row["unit"].startswith("bytes") else row["unit"],
        )
        for row in rows[:_MOST_ROWS]
    ]
    drawn = table(("node", "metric", *PERCENTILES, "unit"), cells, numbers=range(2, 8))
    shown = "" if len(rows) <= _MOST_ROWS else f", of which the first {_MOST_ROWS} are shown"
    return tag("details", tag("summary", f"{len(rows):,} metrics{shown}"), drawn)


def issues(rules: Sequence[RuleResult], name: str) -> Markup:
    """Return every issue of the job `name`, the worst first, with evidence, advice and related issues."""
    found = ordered(rules)
    if not rules:
        text = (
            f"No rule checked this job while it ran. `holter rules run {name}` checks it now; "
            f"`holter report {name} --format sagemaker` shows what the profiler's rules find."
        )
        return tag("p", prose(text), class_="note")
    if not found:
        return tag("p", "No rule found an issue.")
    more = len(found) - _MOST_ISSUES
    drawn = html(*(_issue(one) for one in found[:_MOST_ISSUES]))
    return drawn + (tag("p", f"and {more:,} more", class_="note") if more > 0 else "")


def _issue(found: IssueGroup) -> Markup:
    issue = found.issue
    severity = issue["severity"]
    place = place_text(issue)
    given = (issue.get("evidence") or {}).items()
    evidence = table(("", ""), [(words(key), value_text(value)) for key, value in given])
    parts = [
        html(tag("span", severity_text(severity), class_="severity"), " ", issue_text(found)),
        tag("p", place, class_="note") if place else "",
        tag("p", "→ ", prose(issue["advice"])) if issue["advice"] else "",
        tag("details", tag("summary", "evidence"), evidence) if given else "",
        tag("p", "Related:") if found.symptoms else "",
        *(_issue(one) for one in found.symptoms),
    ]
    return tag("div", *parts, class_=f"issue {('' if found.over else severity)}")


def rules(results: Sequence[RuleResult]) -> Markup:
    """List every rule: its description, advice, status, number of findings and parameters."""
    unseen = set(not_judged(results))
    known = catalogue()
    rows = []
    for rule in sorted(results, key=lambda rule: -(rule.get("triggered") or 0)):
        of = known.get(str(rule.get("rule")))
        rows.append(
            (
                rule["name"],
                "could not judge" if rule["name"] in unseen else status_text(rule["status"]),
                rule.get("triggered"),
                rule.get("evaluations"),
                coverage(rule).get("points_seen"),
                of and of.description,
                of and of.advice,
                ", ".join(f"{name}={value}" for name, value in (rule.get("parameters") or {}).items()),
            )
        )
    heads = ("rule", "status", "fired", "checks", "values", "looks for", "advice", "parameters")
    if not rows:
        return Markup()
    return tag("details", tag("summary", f"{len(rows)} rules"), table(heads, rows, numbers=(2, 3, 4)))


def cost(found: RecordingCost) -> Markup:
    """Return the overhead of recording."""
    rows = [
        ("recorder (% of the training loop)", percent(found["recorder_pct"])),
        ("agent and evaluator (% of one core)", percent(found["agent_cpu_pct"])),
        ("stored", size(found["bytes"])),
        ("stored per step", size(found["bytes_per_step"])),
        ("spans", f"{found['spans']:,}"),
        ("records dropped", "unknown" if found["dropped"] is None else f"{found['dropped']:,}"),
        *((f"own fault in {fault['where']}", fault["error"]) for fault in found["faults"]),
    ]
    return table(("", ""), rows)


def skipped(files: Iterable[SkippedFile]) -> Markup:
    """Name the files that could not be read, and why."""
    return table(("file", "why"), [(entry["file"], entry["why"]) for entry in files])


def bullets(lines: Iterable[str]) -> Markup:
    """Return lines as a list; nothing without lines."""
    listed = html(*(tag("li", prose(line)) for line in lines))
    return tag("ul", listed) if listed else Markup()


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Iterable[int] = ()) -> Markup:
    """Return a table; `numbers` are the columns that are set to the right."""
    right = set(numbers)

    def cells(name: str, values: Sequence[Any]) -> Markup:
        return html(*(tag(name, one, class_="n" if at in right else None) for at, one in enumerate(values)))

    head = tag("thead", tag("tr", cells("th", heads))) if any(heads) else None
    body = tag("tbody", *(tag("tr", cells("td", row)) for row in rows))
    return tag("div", tag("table", head, body), class_="scroll")
