"""The verdict first, then what happened: the page that a job opens with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.dashboard.islands import charts
from holter.report import sections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.views.figures import Reading

TITLE = "Overview"
SHOWN = 10


def draw(reading: Reading, asked: Mapping[str, str]) -> str:
    """Draw the page."""
    told = reading.description
    parts = [
        sections.head(told),
        *sections.verdict(told),
        "<h2>The job</h2>" + sections.job(told),
        charts(reading, "job_phases", "losses"),
    ]
    if told["breakdown"]:
        parts.append("<h2>Where a step's time goes</h2>" + sections.breakdown(told))
    parts += [
        sections.steps(told),
        charts(reading, "breakdown_over_steps", "step_times", "step_histogram", "data_loading"),
        "<h2>The machine</h2>" + sections.machine(told),
        charts(reading, "utilization", "gpu_boxes"),
        "<h2>Numbers of the training</h2>",
        charts(reading, "gradient_norm", "learning_rate", "gradients"),
        "<h2>What holter cost</h2>" + sections.cost(told),
    ]
    if told["skipped"]:
        parts.append("<h2>Files that could not be read</h2>" + sections.skipped(told))
    return "".join(parts)
