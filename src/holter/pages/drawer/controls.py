"""Controls a running job: profiling windows, sampling and stop; and offers its report."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from holter.drawing.markup import html, tag
from holter.pages.forms import choice, entry
from holter.schema.metrics import INTERVALS_MS
from holter.schema.windows import MAX_SECONDS, MAX_STEPS, PYTHON
from holter.views.jobs import RUNNING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from markupsafe import Markup

    from holter.pages.islands import Rendering
    from holter.store.documents import Document
    from holter.views.reading import Reading

TITLE = "Controls"
SHOWN = 30

_WARNINGS = {
    "operators": "Records every operator and kernel: it takes GPU memory, and steps are slow while it runs. "
    "One or two steps are usually enough.",
    "dataloader": "Records every worker of the data loader; loading is somewhat slower while it runs.",
    "python": "Slows training while it runs: cProfile with each call, pyinstrument with each sample.",
}
_TIMES = {"total_time": "all time", "cpu_time": "time on the CPU", "off_cpu_time": "time off the CPU"}


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the page."""
    job = reading.description["job"]
    at = f"/api/v1/jobs/{quote(job['name'])}"
    store = asked.get("store", "0")
    link = tag("a", "Download the report", href=f"{at}/report?store={store}", download=True)
    text = ": one file to keep, mail or print; it needs no server."
    report = html(tag("h2", "Report"), tag("p", link, text))
    if job["status"] not in RUNNING:
        text = (
            f"This run has finished ({job['status'] or 'damaged'}); live controls are off. While a job runs, "
            "this changes its sampling interval, starts profiling windows and stops the training."
        )
        return html(tag("h1", TITLE), tag("p", text), report)
    interval = reading.interval_ns // 1_000_000
    return html(
        tag("h1", TITLE),
        tag("h2", "Profiling windows"),
        _windows(len(reading.description["ranks"])),
        tag("h2", "Monitor"),
        _monitor(interval, reading.trial.manifest),
        tag("h2", "Stop the training"),
        _stop(),
        report,
    )


def _monitor(now_ms: int, manifest: Document) -> Markup:
    on = "off" if manifest.get("monitoring") is False else "on"
    every = [(str(ms), _said(ms)) for ms in INTERVALS_MS]
    interval = choice(
        {}, "interval_ms", "Sample the machine every", every, default=str(now_ms), data_number=True
    )
    return _form(
        "configure",
        choice({}, "monitoring", "System monitoring", [("on", "on"), ("off", "off")], default=on) + interval,
        "Set",
        "A shorter interval records more data and takes more CPU time of the agent. While monitoring is off, "
        "the charts of the machine have a gap; steps and profiling windows are still recorded.",
        told="sent; the agent reads orders about once a second",
    )


def _windows(ranks: int) -> Markup:
    each = [("", "every rank"), *((str(rank), f"rank {rank}") for rank in range(ranks))]
    fields = (
        _number("start_step", "Start step", 0, None, "the next")
        + _number("steps", "Number of steps", 1, MAX_STEPS, "1")
        + entry({}, "start_time", "or start time", kind="datetime-local", step="1")
        + _number("seconds", "and seconds", 1, int(MAX_SECONDS), "one step")
        + choice({}, "rank", "On", each, data_number=True)
    )
    boxes = (
        tag("label", tag("input", type="checkbox", name=name), " ", name) for name in ("shapes", "stacks")
    )
    kinds = {
        "operators": ("Detailed: operators and kernels", html(*boxes)),
        "dataloader": ("Data loading", ""),
        "python": (
            "Python functions",
            choice({}, "python", "Profiler", ((name, name) for name in PYTHON))
            + choice({}, "timer", "cProfile's timer", [("", "default"), *_TIMES.items()]),
        ),
    }
    forms = []
    for kind, (title, more) in kinds.items():
        chosen = (
            "" if kind == "python" else tag("input", type="checkbox", name=kind, checked=True, hidden=True)
        )
        forms.append(
            tag("h3", title)
            + _form(
                "profile",
                html(chosen, fields, more),
                "Start",
                _WARNINGS[kind],
                told="requested; the results appear on the pages when the window ends",
            )
        )
    off = _form(
        "profile",
        tag("input", type="checkbox", name="replace", checked=True, hidden=True),
        "Switch windows off",
        "Ends the running window and removes the waiting ones.",
        told="windows are off",
    )
    return html(*forms) + off


def _stop() -> Markup:
    sure = "Stop this training? Its processes get SIGTERM, and SIGKILL if they run after the grace period."
    return _form(
        "stop",
        _number("grace_s", "Grace period, seconds", 0, 86_400, "30"),
        "Stop the training",
        "Files that the training has written stay. Its state in memory is lost unless it handles SIGTERM.",
        told="stop requested",
        sure=sure,
    )


def _form(order: str, fields: Markup, button: str, warning: str, *, told: str, sure: str = "") -> Markup:
    return tag(
        "form",
        fields,
        tag("button", button, class_="danger" if sure else None),
        tag("output", role="status"),
        tag("p", warning, class_="note"),
        class_="orders",
        data_order=order,
        data_told=told,
        data_sure=sure or None,
    )


def _number(name: str, label: str, low: int, high: int | None, blank: str) -> Markup:
    return entry({}, name, label, kind="number", min=low, max=high, data_number=True, placeholder=blank)


def _said(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms // 1000} s" if ms < 60_000 else f"{ms // 60_000} min"
