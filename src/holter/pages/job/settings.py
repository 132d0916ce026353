"""What a running job can be told: how often to sample, when to look closer, to stop; and its report."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from holter.schema.metrics import INTERVALS_MS
from holter.schema.windows import MAX_SECONDS, MAX_STEPS, PYTHON, TIMERS
from holter.views.jobs import RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holter.views.reading import Reading

TITLE = "Settings"
SHOWN = 100

_WARNINGS = {
    "operators": "Records every operator and kernel: much memory on the GPU and slow steps while it runs. "
    "One or two steps say nearly all there is to say.",
    "dataloader": "Watches every worker of the data loader: loading is somewhat slower while it runs.",
    "python": "Slows training while it runs: cProfile by the number of calls, pyinstrument by time.",
}
_TIMES = {"total_time": "all time", "cpu_time": "time on the CPU", "off_cpu_time": "time off the CPU"}


def draw(reading: Reading, asked: Mapping[str, str]) -> str:
    """Draw the page."""
    job = reading.description["job"]
    at = f"/api/v1/jobs/{escape(quote(job['name']), quote=True)}"
    store = escape(asked.get("store", "0"), quote=True)
    report = (
        f'<h2>Report</h2><p><a href="{at}/report?store={store}" download>Download the report</a>: one file '
        "to keep, mail or print; it needs no server.</p>"
    )
    if job["status"] not in RUNNING:
        ended = escape(str(job["status"] or "damaged"))
        return (
            f"<h1>Settings</h1><p>This job takes no orders any more: it is {ended}. While a job runs, this "
            f"page sets how often it is sampled, switches profiling windows on, and stops it.</p>{report}"
        )
    interval = reading.interval_ns // 1_000_000
    return (
        f"<h1>Settings</h1><h2>Monitor</h2>{_monitor(interval, reading.trial.manifest)}"
        f"<h2>Profiling windows</h2>{_windows(len(reading.description['ranks']))}"
        f"<h2>Stop the training</h2>{_stop()}{report}"
    )


def _monitor(now_ms: int, manifest: Mapping[str, Any]) -> str:
    choices = "".join(
        f'<option value="{ms}"{" selected" if ms == now_ms else ""}>{_said(ms)}</option>'
        for ms in INTERVALS_MS
    )
    on = manifest.get("monitoring") is not False
    switch = "".join(
        f"<option{' selected' if (word == 'on') == on else ''}>{word}</option>" for word in ("on", "off")
    )
    return _form(
        "configure",
        f'<label>System monitoring <select name="monitoring">{switch}</select></label>'
        f'<label>Sample the machine every <select name="interval_ms" data-number>{choices}</select></label>',
        "Set",
        "A shorter interval makes more data, and costs the agent more. While it is off nothing is known of "
        "the machine, and its charts have a gap; steps and windows are recorded all the same.",
        told="the agent was told; it looks about once a second",
    )


def _windows(ranks: int) -> str:
    options = '<option value="">every rank</option>' + "".join(
        f'<option value="{rank}">rank {rank}</option>' for rank in range(ranks)
    )
    fields = (
        _number("start_step", "Start step", 0, None, "the next")
        + _number("steps", "Number of steps", 1, MAX_STEPS, "1")
        + '<label>or start time <input type="datetime-local" name="start_time" step="1"></label>'
        + _number("seconds", "and seconds", 1, int(MAX_SECONDS), "one step")
        + f'<label>On <select name="rank" data-number>{options}</select></label>'
    )
    kinds = {
        "operators": ("Detailed: operators and kernels", _box("shapes", "shapes") + _box("stacks", "stacks")),
        "dataloader": ("Data loading", ""),
        "python": (
            "Python functions",
            _choice("python", "Profiler", ((name, name) for name in PYTHON))
            + _choice(
                "timer", "cProfile's timer", (("", "default"), *((t, _TIMES.get(t, t)) for t in TIMERS[:3]))
            ),
        ),
    }
    forms = []
    for kind, (title, more) in kinds.items():
        chosen = "" if kind == "python" else f'<input type="checkbox" name="{kind}" checked hidden>'
        forms.append(
            f"<h3>{title}</h3>"
            + _form(
                "profile",
                f"{chosen}{fields}{more}",
                "Start",
                _WARNINGS[kind],
                told="asked for; what it finds appears on the pages when the window has ended",
            )
        )
    off = _form(
        "profile",
        '<input type="checkbox" name="replace" checked hidden>',
        "Switch windows off",
        "Ends the window that runs, and forgets those that wait.",
        told="windows are off",
    )
    return "".join(forms) + off


def _stop() -> str:
    sure = (
        "Stop this training? Its processes get SIGTERM, and SIGKILL if they are still there after the grace."
    )
    return _form(
        "stop",
        _number("grace_s", "Seconds to end by itself", 0, 86_400, "30"),
        "Stop the training",
        "What training has written so far stays; what it holds in memory is lost unless it handles SIGTERM.",
        told="the agent was told to stop it",
        sure=sure,
    )


def _form(order: str, fields: str, button: str, warning: str, *, told: str, sure: str = "") -> str:
    asks = f' data-sure="{escape(sure, quote=True)}"' if sure else ""
    kind = ' class="danger"' if sure else ""
    return (
        f'<form class="orders" data-order="{order}" data-told="{escape(told, quote=True)}"{asks}>{fields}'
        f'<button{kind}>{button}</button><output role="status"></output>'
        f'<p class="note">{escape(warning)}</p></form>'
    )


def _number(name: str, label: str, low: int, high: int | None, blank: str) -> str:
    upper = "" if high is None else f' max="{high}"'
    return (
        f'<label>{label} <input type="number" name="{name}" data-number min="{low}"{upper} '
        f'placeholder="{blank}"></label>'
    )


def _box(name: str, label: str) -> str:
    return f'<label><input type="checkbox" name="{name}"> {label}</label>'


def _choice(name: str, label: str, options: Iterable[tuple[str, str]]) -> str:
    drawn = "".join(f'<option value="{value}">{said}</option>' for value, said in options)
    return f'<label>{label} <select name="{name}">{drawn}</select></label>'


def _said(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms // 1000} s" if ms < 60_000 else f"{ms // 60_000} min"
