"""Durations of the job's phases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = "Without steps, the end of initialization and the start of finalization are unknown."


def draw(reading: Reading) -> Figure | None:
    """Draw the phases' durations."""
    phases = reading.description["phases"]
    if not phases:
        return None
    lengths = {
        "initialization": phases["initialization_s"],
        "training loop": phases["training_loop_s"],
        "evaluation": phases["evaluation_s"],
        "finalization": phases["finalization_s"],
    }
    return Figure(
        title="Phases of the job",
        kind="bars",
        x=list(lengths),
        x_axis=Axis("phase"),
        y_axis=Axis("duration", "s"),
        series=[Series("duration", list(lengths.values()))],
    )
