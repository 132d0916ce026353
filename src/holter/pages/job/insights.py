"""The page about the rules: for each its status, evidence and advice, and when it fired."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.addresses import job_address
from holter.pages.islands import charts, island
from holter.pages.text.insights import rules
from holter.views.step_clock import ran

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.pages.islands import Rendering
    from holter.pages.text.insights import Moment
    from holter.views.reading import Reading

TITLE = "Insights"
SHOWN = 30
_EMPTY = (
    "No rule has checked this job. `holter rules run JOB` runs all rules on a finished job; "
    "`holter run` runs the default rules during training."
)


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the page."""
    told = reading.description
    if not told["rules"]:
        return html(tag("h1", "Insights"), tag("p", prose(_EMPTY)))
    job, store = reading.trial.folder.name, int(asked.get("store", "0"))

    def link(moment: Moment) -> str:
        window = {"from": f"{moment[0]:.3f}", "to": f"{moment[1]:.3f}"}
        return job_address(job, store, "nodes", {**asked, **window})

    def mute(rule: str) -> Markup:
        return island(rendering, "mute", Markup, rule=rule)

    found = sum(bool(rule["issues"]) for rule in told["rules"])
    said = f"{found:,} of {len(told['rules']):,} rules found something."
    return html(
        tag("h1", "Insights"),
        tag("p", said, " ", tag("kbd", "j"), " and ", tag("kbd", "k"), " move from rule to rule."),
        charts(rendering, reading, "step_times", "utilization"),
        rules(told, link, mute, partial(ran, reading.steps, reading.start)),
    )
