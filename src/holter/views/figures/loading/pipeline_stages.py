"""Work of the stages of a tf.data pipeline, from its source to its output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.loading.pipelines import pipeline
from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = (
    "No pipeline was recorded: the training used no tf.data, or its pipeline made fewer than 16 elements, or "
    "its autotuning is off, without which tf.data measures nothing."
)


def draw(reading: Reading) -> Figure | None:
    """Draw each stage's work for a batch, and the time it takes with its parallel calls."""
    found = pipeline(reading.trial.table("events", where="kind = 'pipeline'"))
    if found is None:
        return None
    stages = found.active
    return Figure(
        title="Stages of the tf.data pipeline, from its source to its output",
        kind="bars",
        x=[f"{number}. {stage.label}" for number, stage in enumerate(stages, 1)],
        x_axis=Axis("stage"),
        y_axis=Axis("time for a batch", "ms"),
        series=[
            Series("work", [stage.batch_ms for stage in stages]),
            Series("with its parallel calls", [stage.at_once_ms for stage in stages]),
        ],
    )
