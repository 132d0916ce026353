"""One page that holds all of a job's report: no script, no request, no file beside it."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from holter.report import sections
from holter.report.svg import color, svg
from holter.views.figures import Reading, draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.views.figures import Figure

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Nothing but the page's own style and pictures: what a job's names say is never executed."""


def page(reading: Reading) -> str:
    """Return the report of a job, running or finished, as HTML."""
    told = reading.description
    name = escape(told["job"]["name"])
    inside = "".join(body(reading))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name} · holter</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"{style()}</head><body><main>{inside}</main></body></html>\n"
    )


def body(reading: Reading) -> Iterator[str]:
    """Yield what the report says, section by section."""
    told = reading.description
    yield sections.head(told)
    yield from sections.verdict(told)
    yield "<h2>The job</h2>" + sections.job(told)
    yield from _charts(reading, "job_phases", "losses")
    if told["breakdown"]:
        yield "<h2>Where a step's time goes</h2>" + sections.breakdown(told)
    else:
        yield "<h2>Steps</h2>"
    yield sections.steps(told)
    yield from _charts(reading, "breakdown_over_steps", "step_times", "step_histogram", "data_loading")
    yield "<h2>The machine</h2>" + sections.machine(told)
    yield from _charts(reading, "utilization", "devices", "gpu_boxes")
    yield "<h2>What the rules found</h2>" + sections.issues(told) + sections.rules(told)
    yield "<h2>Numbers of the training</h2>"
    yield from _charts(reading, "gradient_norm", "learning_rate", "gradients")
    yield "<h2>What holter cost</h2>" + sections.cost(told)
    if told["skipped"]:
        yield "<h2>Files that could not be read</h2>" + sections.skipped(told)


def _charts(reading: Reading, *names: str) -> Iterator[str]:
    """Draw some charts; of what cannot be drawn say why, once for all of them that say the same."""
    drawn, absent = [], []
    for one in (draw(name, reading) for name in names):
        if isinstance(one, str):
            absent.append(one)
        else:
            drawn.append(one)
    if drawn:
        yield f'<div class="charts">{"".join(map(figure, drawn))}</div>'
    for why in dict.fromkeys(absent):
        yield f'<p class="note">{escape(why)}</p>'


def figure(of: Figure) -> str:
    """Draw one chart with its title, legend and note."""
    several = of.kind in ("lines", "stacked") and (len(of.series) > 1 or of.kind == "stacked")
    legend = "".join(
        f'<li><i class="{color(series, at)}"></i>{escape(series.name)}</li>'
        for at, series in enumerate(of.series)
    )
    note = f'<p class="note">{escape(of.note)}</p>' if of.note else ""
    listed = f'<ul class="legend">{legend}</ul>' if several else ""
    return f"<figure class=holter><h3>{escape(of.title)}</h3>{listed}{svg(of)}{note}</figure>"


def style(within: str = "") -> str:
    """Return the style of pages; `within` a selector, so that a notebook's own things keep theirs."""
    text = files("holter.report").joinpath("page.css").read_text(encoding="utf-8")
    if within:
        text = f"@scope({within}){{{text.replace(':root', ':scope')}}}"
    return f"<style>{text}</style>"
