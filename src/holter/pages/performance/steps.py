"""The steps of a job: how long they take, what their time goes into, and what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.pages.forms import picture
from holter.pages.layout import bare, card, grid
from holter.pages.performance.slow_steps import slow_steps
from holter.pages.text import sections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from markupsafe import Markup

    from holter.pages.islands import Rendering
    from holter.views.reading import Reading


def steps(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw everything about steps."""
    told = reading.description
    recorded = "trace" not in told

    def one(name: str) -> Markup:
        return picture(rendering, reading, name, asked)

    return grid(
        bare(one("phases_over_time"), columns=12) if recorded else None,
        bare(one("breakdown_over_steps"), columns=8) if recorded else None,
        bare(one("step_histogram"), columns=4 if recorded else 6),
        bare(one("last_steps"), columns=6) if recorded else None,
        bare(slow_steps(rendering, reading, asked), columns=6 if recorded else 12),
        card("Step times", sections.steps(told["steps"]), whole=True),
        bare(sections.gpu_times(told["gpu_times"]), whole=True),
        card("Where the job's time went", sections.ledger(told["ledger"]), whole=True),
        card("The loop's own code", sections.own_code(told["own_code"]), whole=True),
        card("Named work in a step", sections.named_work(told["named_work"]), whole=True),
        card("What changed", sections.changes(told["changes"]), whole=True),
    )
