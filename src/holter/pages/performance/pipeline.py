"""Data loading by tf.data: the stages of its pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.analysis.loading.pipelines import pipeline
from holter.drawing.markup import tag
from holter.pages.forms import picture
from holter.pages.layout import card, grid
from holter.pages.tables import Number, sortable, time_cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.analysis.loading.pipelines import DataPipeline, PipelineStage
    from holter.pages.islands import Rendering
    from holter.views.reading import Reading

_HEADS = (
    "stage", "function", "elements per batch", "time per element", "time per batch", "parallel calls",
    "buffer", "chosen by",
)  # fmt: skip
_ABOUT = (
    "tf.data measured this for its own tuning. A stage with parallel calls takes its time divided by them; "
    "the stage with the longest such time limits the pipeline."
)


def pipeline_stages(rendering: Rendering, reading: Reading, asked: Mapping[str, str]) -> Markup:
    """Draw the stages of the pipeline and list their settings; nothing without a pipeline."""
    found = pipeline(reading.trial.table("events", where="kind = 'pipeline'"))
    if found is None:
        return Markup()
    slowest = found.slowest
    lines = [_ABOUT]
    if slowest is not None:
        lines.append(f"Here that is {slowest.label}.")
    lines.append(
        "It makes the next batch while one trains."
        if found.ahead
        else "It has no prefetch at its end: the training waits while it makes a batch."
    )
    table = sortable(rendering, "pipeline", "Stages from the source to the output", _HEADS, _rows(found))
    return grid(
        card(
            "Pipeline of tf.data",
            tag("p", " ".join(lines), class_="note"),
            picture(rendering, reading, "pipeline_stages", asked),
            table,
            columns=12,
            whole=True,
        )
    )


def _rows(found: DataPipeline) -> Iterator[list[str]]:
    for stage in found.stages:
        if stage.name in ("Root", "Model"):
            continue
        known = stage.elements > 0
        yield [
            stage.name,
            stage.function or "",
            Number(stage.elements, f"{stage.elements:.4g}") if known else "unknown",
            time_cell(1e6 * stage.batch_ms / stage.elements if known else None),
            time_cell(1e6 * stage.batch_ms),
            "one thread" if stage.parallelism is None else Number(stage.parallelism),
            "none" if stage.buffer is None else Number(stage.buffer),
            _chosen(stage),
        ]


def _chosen(stage: PipelineStage) -> str:
    if stage.parallelism is None and stage.buffer is None:
        return ""
    return "tf.data (AUTOTUNE)" if stage.tuned else "the script"
