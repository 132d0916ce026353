"""The page about speed: steps and their parts, slow steps, and data loading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.performance.data_loading import data_loading
from holter.pages.performance.steps import steps
from holter.pages.text import overview
from holter.views.jobs import RUNNING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from markupsafe import Markup

    from holter.pages.islands import Rendering
    from holter.views.reading import Reading

TITLE = "Performance"
SHOWN = 20
_MISSING = (
    "No steps were recorded. holter knows the loops of PyTorch, JAX, TensorFlow, Keras and libraries of "
    "trees; in any other loop, mark each step with `with holter.step()`."
)
_WAITING = "No step has been recorded so far. This page fills when the first step ends."


def missing(reading: Reading) -> str | None:
    """Say how to record steps."""
    told = reading.description
    if told["steps"] or told["breakdown"]:
        return None
    return _WAITING if told["job"]["status"] in RUNNING else _MISSING


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the page."""
    told = reading.description
    lacking = missing(reading)
    first = tag("p", prose(lacking), class_="empty") + overview.program(told["program"]) if lacking else None
    return html(
        tag("h1", TITLE),
        first if lacking else steps(reading, asked, rendering),
        tag("h2", "Data loading", id="data-loading"),
        data_loading(reading, asked, rendering),
    )
