"""The loss, and every logged number whose name contains `loss`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figures.training._scalars import curves

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = "No loss was seen. `holter.log(loss=...)` records any number of the training."


def draw(reading: Reading) -> Figure | None:
    """Draw every scalar whose name says loss."""
    return curves(reading, "Loss", "name ILIKE '%loss%' AND NOT name ILIKE '%loss%scal%'", "loss")
