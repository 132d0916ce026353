"""The findings of the rules: their evidence and advice, when they fired, and one table of all that passed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.analysis.verdict.evidence import counted
from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.addresses import to_page
from holter.pages.islands import island
from holter.pages.layout import WHOLE
from holter.pages.overview.findings import count
from holter.pages.text.insights import passed, rules
from holter.rules import catalogue
from holter.views.step_clock import ran

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.pages.islands import Rendering
    from holter.pages.text.insights import Moment
    from holter.views.reading import Reading

TITLE = "Findings"
SHOWN = 10
_PAGES = {"system": "system", "reliability": "system", "learning": "training", "tensors": "training"}
"""The page that shows what the rules of a subject judge; of other subjects it is Performance."""
_EMPTY = (
    "No rule has checked this job. `holter rules run JOB` runs all rules on a finished job; "
    "`holter run` runs the default rules during training."
)


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the findings."""
    told = reading.description
    if not told["rules"]:
        return html(tag("h1", TITLE), tag("p", prose(_EMPTY), class_="empty"))

    def link(rule: str, moment: Moment) -> str:
        window = {"from_": f"{moment[0]:.3f}", "to": f"{moment[1]:.3f}"}
        return to_page(rendering, reading, asked, _page_of(rule), **window)

    def mute(rule: str) -> Markup:
        return island(rendering, "mute", Markup, rule=rule)

    found = sum(bool(rule["issues"]) for rule in told["rules"])
    rules_found = f"{found:,} of {counted(len(told['rules']), 'rule')}"
    findings = counted(count(told["rules"]), "finding")
    said = f"{findings}. {rules_found} found something; an issue and its symptoms count as one finding."
    return html(
        tag("h1", TITLE),
        WHOLE,
        tag("p", said, " ", tag("kbd", "j"), " and ", tag("kbd", "k"), " move from finding to finding."),
        rules(told, link, mute, partial(ran, reading.steps, reading.start)),
        passed(told),
    )


def _page_of(rule: str) -> str:
    """Return the page that shows what a rule judges."""
    known = catalogue().get(rule)
    subject = known.__module__.split(".")[2] if known is not None else ""
    return _PAGES.get(subject, "performance")
