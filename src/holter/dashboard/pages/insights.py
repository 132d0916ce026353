"""What the rules found: each rule with its status, evidence and advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.report import sections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.views.figures import Reading

TITLE = "Insights"
SHOWN = 30


def draw(reading: Reading, asked: Mapping[str, str]) -> str:
    """Draw the page."""
    told = reading.description
    return f"<h1>Insights</h1>{sections.issues(told)}{sections.rules(told)}"
