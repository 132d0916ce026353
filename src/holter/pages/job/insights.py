"""What the rules found: each rule with its status, evidence, advice, and when it was so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.pages.addresses import job_address
from holter.pages.islands import charts, island
from holter.pages.text.insights import rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.pages.text.insights import Moment
    from holter.views.reading import Reading

TITLE = "Insights"
SHOWN = 30


def draw(reading: Reading, asked: Mapping[str, str]) -> str:
    """Draw the page."""
    told = reading.description
    if not told["rules"]:
        return (
            "<h1>Insights</h1><p>No rule has judged this job. Of a finished job <code>holter rules run JOB"
            "</code> asks them all; <code>holter run</code> starts the usual ones beside training.</p>"
        )
    job, store = reading.trial.folder.name, int(asked.get("store", "0"))

    def link(moment: Moment) -> str:
        window = {"from": f"{moment[0]:.3f}", "to": f"{moment[1]:.3f}"}
        return job_address(job, store, "nodes", {**asked, **window})

    def mute(rule: str) -> str:
        return island("mute", lambda: "", rule=rule)

    found = sum(bool(rule["issues"]) for rule in told["rules"])
    said = f"{found:,} of {len(told['rules']):,} rules found something."
    return (
        f"<h1>Insights</h1><p>{said} <kbd>j</kbd> and <kbd>k</kbd> go from one to the next.</p>"
        f"{charts(reading, 'step_times', 'utilization')}{rules(told, link, mute)}"
    )
