"""Names the stage of a tf.data pipeline that limits it, and advises on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted, ms
from holter.analysis.verdict.result import Advice

if TYPE_CHECKING:
    from holter.analysis.loading.pipelines import DataPipeline, PipelineStage
    from holter.analysis.verdict.evidence import Evidence
    from holter.analysis.verdict.job_facts import VerdictFacts


def slow_stage(facts: VerdictFacts, pipeline: DataPipeline) -> tuple[str, Evidence] | None:
    """Return the stage that limits a pipeline, in words, and as evidence."""
    stage = pipeline.slowest
    if stage is None:
        return None
    text = f"{stage.label} takes {_work(stage)}{_cores(facts, stage)}"
    return text, facts.seen(text, "pipeline.batch_ms", stage.batch_ms, None, stage.function or stage.name)


def pipeline_advice(facts: VerdictFacts, pipeline: DataPipeline) -> list[Advice]:
    """Advise on the stage that limits a pipeline, with the expected step time."""
    stage, rest = pipeline.slowest, facts.rest_ms or 0.0
    if stage is None:
        return []
    cores = facts.load.cpus if facts.load is not None else None
    it = f"{stage.label} takes {_work(stage)}{_cores(facts, stage)}"
    found = []
    if not pipeline.ahead:
        text = "Make the next batch while this one trains: end the pipeline with .prefetch(tf.data.AUTOTUNE)."
        why = f"its stages take {ms(pipeline.work_ms)} per batch, and the rest of the step takes {ms(rest)}"
        found.append(Advice(text, _at_least(facts, pipeline, stage.at_once_ms, cores), why))
    if stage.in_python:
        text = (
            "Move the work of the generator into a `map` with num_parallel_calls=tf.data.AUTOTUNE, or into a "
            "PyDataset with workers: a generator makes one element at a time."
        )
        found.append(Advice(text, None, it))
    elif (stage.calls or stage.reads) and not stage.tuned and (stage.parallelism or 1) < (cores or 2):
        parallel = stage.batch_ms / (cores or 2)
        expected = _at_least(facts, pipeline, parallel, cores)
        what = "interleave" if stage.reads else "map"
        text = f"Let tf.data run {stage.function or stage.name} in parallel: give `{what}` "
        text += "num_parallel_calls=tf.data.AUTOTUNE."
        gain = "would hide it behind" if parallel <= rest else f"would shorten it to {ms(parallel)}, beside"
        found.append(Advice(text, expected, f"{it}; AUTOTUNE {gain} the rest of the step ({ms(rest)})"))
    else:
        text = (
            f"Prepare the data once, before the training, instead of in {stage.label}, or put .cache() after "
            "it if the results fit into memory."
        )
        found.append(Advice(text, rest, it))
    return found


def _at_least(facts: VerdictFacts, pipeline: DataPipeline, stage_ms: float, cores: int | None) -> float:
    """Return the step time if the slowest stage takes so long, and nothing exceeds what the cores can do."""
    rest = facts.rest_ms or 0.0
    together = (pipeline.work_ms + rest) / cores if cores and facts.device == "cpu" else 0.0
    return max(rest, stage_ms, together)


def _work(stage: PipelineStage) -> str:
    each = stage.batch_ms / stage.elements if stage.elements else 0.0
    of = f" ({ms(each)} per element)" if stage.elements >= 2 else ""
    return f"{ms(stage.batch_ms)} per batch{of}"


def _cores(facts: VerdictFacts, stage: PipelineStage) -> str:
    used = stage.parallelism or 1
    cores = facts.load.cpus if facts.load is not None else None
    return f" on {used} of {counted(cores, 'core')}" if cores and used <= cores else ""
