"""What an overview of a job has: how far it is, its times, how busy its machines were, what cost most."""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING, Any

from holter.drawing.pie import pie
from holter.pages.text.sections import table
from holter.schema.phases import JOB_PHASES
from holter.views.jobs import RUNNING
from holter.views.wording import duration, milliseconds, percent, reading_text, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.views.document.types import Description

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
_COLORS = ("c6", "c0", "c7")
"""Of the phases of a job: none that a part of a step has."""


def progress(found: Mapping[str, Any]) -> str:
    """Say how far a job is; `found` is what `holter.views.document.progress` returns."""
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


def phases(told: Description) -> str:
    """Draw how the job's time divides into its phases."""
    parts = [(words(phase), seconds, duration(seconds)) for phase, seconds, _ in _phases(told)]
    if not parts:
        return '<p class="note">Without steps nobody can tell where initialization ends.</p>'
    return pie("phases of the job", parts, _COLORS)


def details(told: Mapping[str, Any]) -> str:
    """Give the job's times."""
    job, known = told["job"], told["phases"] or {}
    runs = job["status"] in RUNNING
    rows = [
        ("start", _clock(job["start"])),
        ("end", _clock(job["end"]) if job["end"] else "still running" if runs else "unknown"),
        ("duration", duration(job["duration_s"])),
        ("training loop start", _clock(known.get("training_loop_start"))),
        ("training loop end", "still running" if runs else _clock(known.get("training_loop_end"))),
        *(
            (words(phase), duration(seconds) + (f" ({percent(share)})" if share is not None else ""))
            for phase, seconds, share in _phases(told)
        ),
    ]
    return table(("", ""), rows)


def _phases(told: Mapping[str, Any]) -> Iterator[tuple[str, float, float | None]]:
    """Yield each known phase with its seconds and percent; what still runs is not being finalized."""
    known = told["phases"] or {}
    runs = told["job"]["status"] in RUNNING
    for phase in JOB_PHASES:
        seconds, share = known.get(f"{phase}_s"), known.get(f"{phase}_pct")
        if runs and phase == "training_loop" and seconds is not None:
            seconds += known.get("finalization_s") or 0.0
            share = None if share is None else share + (known.get("finalization_pct") or 0.0)
        if seconds is not None and not (runs and phase == "finalization"):
            yield phase, seconds, share


def summary(told: Description) -> str:
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
    how = (
        f"While the job runs, a window of one or two steps does: <code>holter profile {name} --steps 2</code>"
        ", or Settings."
        if told["job"]["status"] in RUNNING
        else "<code>holter run --profile-steps 100:101 -- …</code> records those of the steps that it names."
    )
    return f'<p class="note">No operators were recorded. {how}</p>'


def _clock(at: int | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1e9)) if at else "unknown"


def _with_unit(value: float | None, unit: str) -> str:
    text = reading_text(value, unit)
    return f"{text} {unit}" if text and not unit.startswith("bytes") else text
