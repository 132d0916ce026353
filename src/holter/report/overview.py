"""What an overview of a job has: how far it is, its times, how busy its machines were, what cost most."""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING, Any

from holter.report.pie import pie
from holter.report.sections import reading_text, table
from holter.schema.phases import JOB_PHASES
from holter.views.wording import duration, milliseconds, percent, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SUMMED = {
    "cpu.util": "CPU, all cores",
    "gpu.util": "GPU, all devices",
    "mem.used_pct": "host memory",
    "gpu.mem.used_pct": "GPU memory",
    "cpu.iowait": "waiting for input and output",
    "net.rx": "network, received",
    "net.tx": "network, sent",
}
_PERCENTILES = ("min", "p50", "p90", "p95", "p99", "max")
_MOST = 8


def progress(found: Mapping[str, Any]) -> str:
    """Say how far a job is; `found` is what `holter.views.progress` returns."""
    if found["step"] is None:
        return "<p>No steps have been seen so far.</p>"
    said = [f"step {found['step']:,}"]
    if found["share_pct"] is not None:
        said.append(f"{percent(found['share_pct'])} of {found['total']:,}")
    if found["per_second"]:
        said.append(f"{found['per_second']:.3g} steps a second")
    if found["epoch"] is not None:
        left = f", about {duration(found['epoch_left_s'])} left in it" if found["epoch_left_s"] else ""
        said.append(f"epoch {found['epoch']}{left}")
    if found["left_s"] is not None:
        done = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + found["left_s"]))
        said.append(f"done in about {duration(found['left_s'])}, at {done}")
    bar = (
        ""
        if found["share_pct"] is None
        else f'<progress max="100" value="{found["share_pct"]:.1f}"></progress>'
    )
    read = f"<br><span class=dim>All steps: {escape(found['total_from'])}</span>" if found["total"] else ""
    return f"<p>{' · '.join(said)} {bar}{read}</p>"


def phases(told: Mapping[str, Any]) -> str:
    """Draw how the job's time divides into its three phases."""
    known = told["phases"] or {}
    parts = [
        (words(phase), known[f"{phase}_s"], duration(known[f"{phase}_s"]))
        for phase in JOB_PHASES
        if known.get(f"{phase}_s") is not None
    ]
    if not parts:
        return '<p class="note">Without steps nobody can tell where initialization ends.</p>'
    return pie("phases of the job", parts)


def details(told: Mapping[str, Any]) -> str:
    """Give the job's times."""
    job, known = told["job"], told["phases"] or {}
    rows = [
        ("start", _clock(job["start"])),
        ("end", _clock(job["end"]) if job["end"] else "it runs"),
        ("duration", duration(job["duration_s"])),
        ("training loop start", _clock(known.get("training_loop_start"))),
        ("training loop end", _clock(known.get("training_loop_end"))),
    ]
    for phase in JOB_PHASES:
        seconds, share = known.get(f"{phase}_s"), known.get(f"{phase}_pct")
        if seconds is not None:
            said = duration(seconds) + (f" ({percent(share)})" if share is not None else "")
            rows.append((words(phase), said))
    return table(("", ""), rows)


def summary(told: Mapping[str, Any]) -> str:
    """Give the spread of the main metrics, a block for each node."""
    blocks = list(_blocks(told))
    return "".join(blocks) or '<p class="note">No samples of the machine were taken.</p>'


def _blocks(told: Mapping[str, Any]) -> Iterator[str]:
    several = len(told["nodes"]) > 1
    for node in dict.fromkeys(row["node"] for row in told["utilization"]):
        known = {row["metric"]: row for row in told["utilization"] if row["node"] == node}
        rows = [
            (name, *(_with_unit(known[metric][key], known[metric]["unit"]) for key in _PERCENTILES))
            for metric, name in _SUMMED.items()
            if metric in known
        ]
        if rows:
            title = f"<h3>{escape(str(node))}</h3>" if several else ""
            yield title + table(("", *_PERCENTILES), rows, numbers=range(1, 7))


def operations(told: Mapping[str, Any]) -> str:
    """Name what took most time, on the host and on the devices."""
    found = told["operators"] or {}
    drawn = "".join(
        f"<h3>{title}</h3>"
        + table(
            ("operator", "share", "time", "calls"),
            [
                (row["name"], percent(row["pct"]), milliseconds(row["total_ms"]), f"{row['count']:,}")
                for row in found[where][:_MOST]
            ],
            numbers=(1, 2, 3),
        )
        for where, title in (("gpu", "On the GPU"), ("cpu", "On the CPU"))
        if found.get(where)
    )
    if drawn:
        return drawn
    name = escape(str(told["job"]["name"]))
    return (
        '<p class="note">No operators were recorded. While the job runs, a window of one or two steps does: '
        f"<code>holter profile {name} --steps 2</code>, or Settings.</p>"
    )


def _clock(at: int | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1e9)) if at else "unknown"


def _with_unit(value: float | None, unit: str) -> str:
    text = reading_text(value, unit)
    return f"{text} {unit}" if text and not unit.startswith("bytes") else text
