"""How the job's time divides into its phases."""

from __future__ import annotations

from holter.schema.phases import JOB_PHASES
from holter.views.figures import Axis, Figure, Reading, Series

MISSING = "Without steps nobody can tell where initialization ends and finalization begins."


def draw(reading: Reading) -> Figure | None:
    """Draw the phases' durations."""
    phases = reading.description["phases"]
    if not phases:
        return None
    return Figure(
        title="Phases of the job",
        kind="bars",
        x=[phase.replace("_", " ") for phase in JOB_PHASES],
        x_axis=Axis("phase"),
        y_axis=Axis("duration", "s"),
        series=[Series("duration", [phases.get(f"{phase}_s") for phase in JOB_PHASES])],
    )
