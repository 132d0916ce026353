"""The learning rate of the optimizer's first group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figures.training._scalars import curves

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = "No learning rate was seen: there was no optimizer, or its rate lies on a device."


def draw(reading: Reading) -> Figure | None:
    """Draw the learning rate."""
    return curves(reading, "Learning rate", "name = 'lr'", "learning rate")
