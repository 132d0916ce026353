"""The report's text and tables: what the description says, and no sentence that it does not support."""

from __future__ import annotations

import json
import shlex
import time
from html import escape
from typing import TYPE_CHECKING, Any

from holter.analysis.verdict.evidence import counted
from holter.drawing.pieces import prose
from holter.rules import catalogue
from holter.views.document.cost import unwritten
from holter.views.issues import not_judged, ordered
from holter.views.jobs import RUNNING
from holter.views.wording import (
    duration,
    gpus_text,
    issue_text,
    milliseconds,
    percent,
    reading_text,
    size,
    stages_text,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holter.views.document.types import Description
    from holter.views.issues import IssueGroup

_MOST_ROWS = 400
_MOST_ISSUES = 200
_MOST_LETTERS = 240
"""Of a command, before the rest of it has to be asked for."""


def head(told: Mapping[str, Any]) -> str:
    """Name the job, say how it is, and by which command it runs."""
    of = told["job"]
    began = (
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(of["start"] / 1e9)) if of["start"] else "unknown"
    )
    status = of["status"] or "status unknown"
    took = "running for" if of["status"] in RUNNING else "took"
    return (
        f"<h1>{escape(of['name'])}</h1>"
        f'<p class="dim">{escape(status)} · began {began} · {took} {duration(of["duration_s"])}<br>'
        f"{_command(shlex.join(map(str, of['command'])))}</p>"
    )


def _command(text: str) -> str:
    """Write a command; what is longer than a line or two can be opened."""
    if len(text) <= _MOST_LETTERS:
        return f"<code>{escape(text)}</code>"
    short = escape(text[: _MOST_LETTERS - 1])
    return f"<details><summary><code>{short}…</code></summary><code>{escape(text)}</code></details>"


def verdict(told: Description) -> Iterator[str]:
    """Say what is wrong, why, what to do, what was ruled out and what was not seen."""
    found = told["verdict"]
    mood = {"healthy": "", "inconclusive": "unsure"}.get(found["suspect"], "sick")
    # A job that broke is not well, however fast it was.
    mood = "sick" if told["job"]["headline"] or told["job"]["status"] == "Failed" else mood
    yield f'<section class="verdict {mood}">'
    if told["job"]["headline"]:
        yield f'<p class="headline">{escape(told["job"]["headline"])}</p>'
    if lost := unwritten(told):
        yield f'<p class="headline">{escape(lost)}</p>'
    yield f'<p class="said">{escape(found["sentence"])}</p>'
    yield bullets(fact["text"] for fact in found["evidence"])
    if found["advice"]:
        yield "<h3>Advice</h3>"
        yield f"<ul>{''.join(map(_advice, found['advice']))}</ul>"
    if found["ruled_out"]:
        yield "<h3>Ruled out</h3>"
        yield bullets(f"{words(one['suspect'])}: {one['because']}" for one in found["ruled_out"])
    if found["missing"]:
        yield "<h3>Not seen</h3>"
        yield bullets(found["missing"])
    yield "</section>"


def _advice(one: Mapping[str, Any]) -> str:
    """Say what to do, before it the step time that it promises, after it how that was computed."""
    expected = one.get("expected_step_ms")
    promised = "" if expected is None else f"<b>{milliseconds(expected)} a step</b>: "
    why = f' <span class="dim">({prose(str(one["why"]))})</span>' if one.get("why") else ""
    return f"<li>{promised}{prose(str(one['text']))}{why}</li>"


def job(told: Description) -> str:
    """Tell what ran, where, and how it ended."""
    of = told["job"]
    framework = of["framework"] or {}
    rows = [
        (
            "status",
            (of["status"] or "unknown")
            + (f", exit code {of['exit_code']}" if of["exit_code"] is not None else ""),
        ),
        ("signal", of["signal"]),
        ("framework", " ".join(str(framework[k]) for k in ("name", "version", "device") if framework.get(k))),
        ("ranks", len(told["ranks"]) or None),
    ]
    for node in told["nodes"]:
        cpus = counted(node["cpus"], "CPU") if node["cpus"] else "CPUs unknown"
        rows.append(
            (
                f"node {node['node']}",
                f"{cpus}, {size(node['memory_bytes'])} memory, {gpus_text(node['gpus'])}",
            )
        )
    return table(("", ""), [(name, value) for name, value in rows if value not in (None, "")])


def breakdown(told: Mapping[str, Any]) -> str:
    """Draw the split of a step as one bar, and name its parts."""
    parts = [(part, share) for part, share in told["breakdown"].items() if share]
    bar = "".join(
        f'<span class="p-{part}" style="width:{share:.3f}%" title="{words(part)} {percent(share)}"></span>'
        for part, share in parts
    )
    listed = "".join(
        f'<li><i class="p-{part}"></i>{words(part)} {percent(share)}</li>' for part, share in parts
    ) + "".join(f"<li>{words(part)}: not seen</li>" for part in told.get("not_seen", ()))
    trace = "idle" in told["breakdown"]
    whole = "the accelerators' time" if trace else "the training loop's wall time after warm-up"
    inside = stages_text(told["dataloading"])
    return (
        f'<div class="bar-of-parts" role="img" aria-label="split of a step">{bar}</div>'
        f'<ul class="legend">{listed}</ul>'
        f'<p class="note">Of {whole}; each moment counts once.</p>'
        + (f"<p>Data loading: {escape(inside)}.</p>" if inside else "")
    )


def steps(told: Mapping[str, Any]) -> str:
    """Give the statistics of step times, and the longest outliers."""
    found = told["steps"]
    if not found:
        return '<p class="note">No steps were seen.</p>'
    heads = ("steps", "warm-up", "mean", "p50", "p90", "p95", "p99", "max", "per second")
    times = [milliseconds(found[f"{key}_ms"]) for key in ("mean", "p50", "p90", "p95", "p99", "max")]
    pace = f"{found['per_second']:.3g}" if found["per_second"] else ""
    text = table(heads, [(f"{found['count']:,}", found["warmup"], *times, pace)], numbers=range(9))
    if not found["outliers"]:
        return text
    longest = [
        (
            f"{one['step']:,}",
            one["rank"],
            milliseconds(one["duration_ms"]),
            milliseconds(one["extra_ms"]),
            words(one["cause"] or ""),
        )
        for one in found["outliers"]
    ]
    drawn = table(("step", "rank", "took", "longer by", "mostly in"), longest, numbers=range(4))
    count = found["outlier_count"]
    said = f"{counted(count, 'step')} took much longer"
    most = f", the longest {len(longest)} of them" if count > len(longest) else ""
    return f'{text}<details class="more"><summary>{said}{most}</summary>{drawn}</details>'


def machine(told: Mapping[str, Any]) -> str:
    """Give the statistics of each metric, as a table to open."""
    rows = told["utilization"]
    if not rows:
        return '<p class="note">No samples of the machine were taken.</p>'
    keys = ("min", "p50", "p90", "p95", "p99", "max")
    cells = [
        (
            row["node"],
            row["metric"] + (f" {row['device']}" if row.get("device") else ""),
            *(reading_text(row[key], row["unit"]) for key in keys),
            "" if row["unit"].startswith("bytes") else row["unit"],
        )
        for row in rows[:_MOST_ROWS]
    ]
    drawn = table(("node", "metric", *keys, "unit"), cells, numbers=range(2, 8))
    return f"<details><summary>{len(rows)} metrics</summary>{drawn}</details>"


def issues(told: Mapping[str, Any]) -> str:
    """Tell every issue, the worst first, with its evidence and advice, and what follows from it."""
    found = ordered(told["rules"])
    if not told["rules"]:
        name = escape(told["job"]["name"])
        return (
            f'<p class="note">No rule judged this job as it ran: <code>holter rules run {name}</code> does; '
            f"<code>holter report {name} --format sagemaker</code> tells what the profiler's rules see.</p>"
        )
    if not found:
        return "<p>No rule found an issue.</p>"
    more = len(found) - _MOST_ISSUES
    told_of = "".join(_issue(one) for one in found[:_MOST_ISSUES])
    return told_of + (f'<p class="note">and {more:,} more</p>' if more > 0 else "")


def _issue(found: IssueGroup) -> str:
    issue = found.issue
    severity = issue["severity"]
    whose = ("node", "rank", "device", "tensor")
    place = [f"{name} {issue[name]}" for name in whose if issue.get(name) not in (None, "")]
    first, last = issue.get("step_start"), issue.get("step_end")
    if first is not None:
        place.append(f"step {first}" if last in (first, None) else f"steps {first} to {last}")
    evidence = json.dumps(issue.get("evidence") or {}, default=str, ensure_ascii=False)[:4000]
    parts = [
        f'<span class="severity">{severity}</span> {escape(issue_text(found))}',
        f'<p class="note">{escape(", ".join(place))}</p>' if place else "",
        f"<p>→ {prose(issue['advice'])}</p>" if issue.get("advice") else "",
        f"<details><summary>evidence</summary><code>{escape(evidence)}</code></details>",
        "<p>From the same cause:</p>" if found.symptoms else "",
        *(_issue(one) for one in found.symptoms),
    ]
    return f'<div class="issue {"" if found.over else severity}">{"".join(parts)}</div>'


def rules(told: Mapping[str, Any]) -> str:
    """List every rule: what it looks for and advises, its status, how often it fired, its parameters."""
    unseen = set(not_judged(told["rules"]))
    known = catalogue()
    rows = []
    for rule in sorted(told["rules"], key=lambda rule: -(rule.get("triggered") or 0)):
        of = known.get(str(rule.get("rule")))
        rows.append(
            (
                rule["name"],
                "could not judge" if rule["name"] in unseen else rule["status"],
                rule.get("triggered"),
                rule.get("evaluations"),
                (rule.get("coverage") or {}).get("points_seen"),
                of and of.description,
                of and of.advice,
                ", ".join(f"{name}={value}" for name, value in (rule.get("parameters") or {}).items()),
            )
        )
    heads = ("rule", "status", "fired", "looked", "judged", "looks for", "advice", "parameters")
    if not rows:
        return ""
    return f"<details><summary>{len(rows)} rules</summary>{table(heads, rows, numbers=(2, 3, 4))}</details>"


def cost(told: Description) -> str:
    """Say what recording cost."""
    found = told["cost"]
    rows = [
        ("recorder, of the training loop", percent(found["recorder_pct"])),
        ("agent and evaluator, of one core", percent(found["agent_cpu_pct"])),
        ("stored", size(found["bytes"])),
        ("stored for a step", size(found["bytes_per_step"])),
        ("spans", f"{found['spans']:,}"),
        ("records dropped", "unknown" if found["dropped"] is None else f"{found['dropped']:,}"),
        *((f"own fault in {fault.get('where', '')}", fault.get("error", "")) for fault in found["faults"]),
    ]
    return table(("", ""), rows)


def skipped(told: Description) -> str:
    """Name the files that could not be read, and why."""
    return table(("file", "why"), [(entry["file"], entry["why"]) for entry in told["skipped"]])


def bullets(lines: Iterable[str]) -> str:
    """Return a list of lines; nothing when there are none."""
    listed = "".join(f"<li>{prose(line)}</li>" for line in lines)
    return f"<ul>{listed}</ul>" if listed else ""


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Iterable[int] = ()) -> str:
    """Return a table; `numbers` are the columns that are set to the right."""
    right = set(numbers)

    def cells(values: Sequence[Any], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if at in right else ''}>{escape('' if value is None else str(value))}</{tag}>"
            for at, value in enumerate(values)
        )

    head = f"<thead><tr>{cells(heads, 'th')}</tr></thead>" if any(heads) else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'
