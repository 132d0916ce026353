"""Sections of the overview: progress, phases, utilization and the slowest operations."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.analysis.verdict.evidence import counted
from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.drawing.ring import Sector, ring
from holter.pages.text.sections import PERCENTILES, clock, table
from holter.views.jobs import RUNNING
from holter.views.wording import duration, milliseconds, percent, plain_event, rate, reading_text, size, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.views.document.progress import JobProgress
    from holter.views.document.types import Description
    from holter.views.document.types.program import ProgramEntry, SampledTraining
    from holter.views.document.types.training import MetricStatistics

_SUMMED = {
    "cpu.util": "CPU, all cores",
    "gpu.util": "GPU, all devices",
    "mem.used_pct": "host memory",
    "gpu.mem.used_pct": "GPU memory",
    "cpu.iowait": "I/O wait",
    "net.rx": "network, received",
    "net.tx": "network, sent",
}
_MOST = 8
_COLORS = ("c6", "c0", "c7")
"""Colors of the phases of a job; no part of a step has one of them."""


def progress(found: JobProgress) -> Markup:
    """Describe the progress of a job."""
    if found["step"] is None:
        return tag("p", "No steps recorded so far.")
    said = [f"step {found['step']:,}"]
    if found["share_pct"] is not None:
        said.append(f"{percent(found['share_pct'])} of {found['total']:,}")
    if found["per_second"]:
        said.append(f"{rate(found['per_second'])} steps/s")
    if found["epoch"] is not None:
        left = f", about {duration(found['epoch_left_s'])} left in it" if found["epoch_left_s"] else ""
        said.append(f"epoch {found['epoch']}{left}")
    if found["left_s"] is not None:
        done = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + found["left_s"]))
        said.append(f"ends in about {duration(found['left_s'])}, at {done}")
    bar = "" if found["share_pct"] is None else tag("progress", max="100", value=f"{found['share_pct']:.1f}")
    read = (
        html(tag("br"), tag("span", "Total steps: ", prose(found["total_from"] or ""), class_="dim"))
        if found["total"]
        else ""
    )
    return tag("p", " · ".join(said), " ", bar, read)


def program(found: ProgramEntry | None) -> Markup:
    """Describe a command that took no steps: its processes, its functions and what repeats in it."""
    if found is None:
        return Markup()
    processes = [
        (one["name"], f"{one['pid']}", duration(one["cpu_s"] + one["children_s"]), f"{one['threads']:,}",
         size(one["memory_bytes"]), *(size(one[key]) for key in ("read_bytes", "written_bytes")))
        for one in found["processes"]
    ]  # fmt: skip
    heads = ("process", "pid", "CPU time", "threads", "memory", "read", "written")
    functions = [(one["name"], percent(one["pct"])) for one in found["functions"]]
    where = Markup()
    if functions:
        title = tag("h3", f"Where {found['name']} spends its time")
        where = title + table(("function", "share"), functions, numbers=(1,))
    if training := found["training"]:
        where = _sampled_parts(training) + where
    repeats = found["estimated_steps"]
    said = "Steps cannot be estimated: nothing repeats clearly in its use of CPU, GPU and files."
    if repeats:
        said = f"Estimated, not recorded: {repeats['text']}. This may be a step; no rule takes it for one."
    return html(
        tag("h2", "Program"),
        tag("p", found["sentence"]),
        table(heads, processes, numbers=range(1, 7)),
        where,
        tag("h2", "Steps"),
        tag("p", "No steps were recorded. ", said),
    )


def _sampled_parts(found: SampledTraining) -> Markup:
    """Give the parts of a training loop that was recorded from outside."""
    rows = [
        (words(one["part"]), one["where"] or "", one["function"] or "", percent(one["pct"]))
        for one in found["parts"]
    ]
    note = f"{found['samples']:,} stack samples; the parts of single steps are not known."
    if workers := found["workers"]:
        busy = f"build batches {percent(workers['busy_pct'])} of the time"
        inside = f", mostly in {workers['function']}" if workers["function"] else ""
        note = f"{counted(workers['count'], 'worker')} of data loaders {busy}{inside}. {note}"
    return html(
        tag("h3", "Parts of the training loop"),
        table(("part", "called from", "mostly in", "share"), rows, numbers=(3,)),
        tag("p", note, class_="note"),
    )


def phases(told: Description) -> Markup:
    """Draw how the job's time divides into its phases."""
    parts = list(_phases(told))
    if not parts:
        return tag("p", "Initialization and training cannot be separated without steps.", class_="note")
    whole = sum(seconds for _, seconds, _ in parts) or 1.0
    sectors = [
        Sector(words(phase), 100 * seconds / whole, duration(seconds), color)
        for (phase, seconds, _), color in zip(parts, _COLORS, strict=False)
    ]
    return ring("phases of the job", sectors)


def details(told: Description) -> Markup:
    """Give the job's times."""
    job, known = told["job"], told["phases"]
    runs = job["status"] in RUNNING
    rows = [
        ("start", clock(job["start"])),
        ("end", clock(job["end"]) if job["end"] else "still running" if runs else "unknown"),
        ("duration", duration(job["duration_s"])),
        ("training loop start", clock(known and known["training_loop_start"])),
        ("training loop end", "still running" if runs else clock(known and known["training_loop_end"])),
        *(
            (words(phase), duration(seconds) + (f" ({percent(share)})" if share is not None else ""))
            for phase, seconds, share in _phases(told)
        ),
    ]
    return table(("", ""), rows)


def _phases(told: Description) -> Iterator[tuple[str, float, float | None]]:
    """Yield each known phase with its seconds and percent; what still runs is not being finalized."""
    known = told["phases"]
    if not known:
        return
    runs = told["job"]["status"] in RUNNING
    lengths = {
        "initialization": (known["initialization_s"], known["initialization_pct"]),
        "training_loop": (known["training_loop_s"], known["training_loop_pct"]),
        "evaluation": (known["evaluation_s"], known["evaluation_pct"]),
        "finalization": (known["finalization_s"], known["finalization_pct"]),
    }
    for phase, (seconds, share) in lengths.items():
        if seconds is None or (runs and phase == "finalization"):
            continue
        if runs and phase == "training_loop":
            seconds += known["finalization_s"] or 0.0
            share = None if share is None else share + (known["finalization_pct"] or 0.0)
        yield phase, seconds, share


def summary(told: Description, node: str | None) -> Markup:
    """Give the spread of the main metrics, a block for each node; of one node if it is chosen."""
    of: dict[str, dict[str, MetricStatistics]] = {}
    for row in told["utilization"]:
        if node in (None, row["node"]):
            of.setdefault(row["node"], {})[row["metric"]] = row
    blocks = list(_blocks(dict(list(of.items())[:_MOST]), several=len(told["nodes"]) > 1))
    more = len(of) - _MOST
    if more > 0:
        blocks.append(tag("p", f"and {counted(more, 'more node')}: choose one above", class_="note"))
    return html(*blocks) or tag("p", "No machine samples were taken.", class_="note")


def _blocks(of: Mapping[str, Mapping[str, MetricStatistics]], *, several: bool) -> Iterator[Markup]:
    for node, known in of.items():
        rows = [
            (name, *(_with_unit(known[metric][key], known[metric]["unit"]) for key in PERCENTILES))
            for metric, name in _SUMMED.items()
            if metric in known
        ]
        if rows:
            title = tag("h3", node) if several else ""
            yield title + table(("", *PERCENTILES), rows, numbers=range(1, 7))


def operations(told: Description) -> Markup:
    """Name what took most time, on the host and on the devices."""
    found = told["operators"] or {"cpu": [], "gpu": []}
    drawn = Markup()
    for rows, title in ((found["gpu"], "On the GPU"), (found["cpu"], "On the CPU")):
        cells = [
            (_named(row["name"]), percent(row["pct"]), milliseconds(row["total_ms"]), f"{row['count']:,}")
            for row in rows[:_MOST]
        ]
        if cells:
            drawn += tag("h3", title) + table(
                ("operator", "share", "time", "calls"), cells, numbers=(1, 2, 3)
            )
    if drawn:
        return drawn
    how = "To record those of some steps: `holter run --profile-steps 100:101 -- …`."
    if told["job"]["status"] in RUNNING:
        how = (
            f"To record one or two steps now: `holter profile {told['job']['name']} --count 2`, or Controls."
        )
    return tag("p", prose(f"No operators were recorded. {how}"), class_="note")


def _named(name: str) -> Markup | str:
    """Write the short form of a kernel's name, with the whole name as a tooltip."""
    short = plain_event(name)
    return name if short == name else tag("span", short, title=name)


def _with_unit(value: float | None, unit: str) -> str:
    text = reading_text(value, unit)
    return f"{text} {unit}" if text and not unit.startswith("bytes") else text
