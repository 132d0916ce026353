"""Pipelines of tf.data: the slowest stage is named, and the advice fits it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holter.analysis.loading.pipelines import DataPipeline, pipeline
from holter.analysis.machine.load import Load
from holter.analysis.verdict.job_advice import data_pipeline
from holter.analysis.verdict.job_facts import VerdictFacts
from holter.analysis.verdict.job_suspects import data_pipeline as suspect
from holter.schema.table import Table

SLICES = {"name": "TensorSlice", "elements": 3200, "ms": 5.0}
MAP = {"name": "Map", "elements": 3200, "ms": 6400.0, "function": "decode (train.py:3)"}
BATCH = {"name": "BatchV2", "elements": 100, "ms": 40.0}
PREFETCH = {"name": "Prefetch", "elements": 100, "ms": 9000.0, "buffer": 2, "tuned": True}
ROOT = {"name": "Root", "elements": 100, "ms": 9000.0}


def told(*stages: dict[str, Any], elements: int = 100, dataset: int = 0, time: int = 1) -> dict[str, Any]:
    return {"dataset": dataset, "elements": elements, "stages": list(stages), "process": "1", "time": time}


def read(*facts: dict[str, Any]) -> DataPipeline | None:
    rows = [
        {"time": at, "rank": 0, "node": "", "kind": "pipeline", "name": "", "detail": json.dumps(fact)}
        for at, fact in enumerate(facts)
    ]
    return pipeline(Table.of("events", rows))


def facts(
    found: DataPipeline | None, *, cpus: int = 4, rest: float = 40.0, device: str = "cuda"
) -> VerdictFacts:
    return VerdictFacts(
        breakdown={"data_loading": 60.0, "compute": 40.0},
        mean_step_ms=100.0,
        step_ms=100.0,
        rest_ms=rest,
        ranks=(0,),
        device=device,
        pipeline=found,
        loads=[Load(node="n", cpus=cpus)],
    )


def test_the_slowest_stage_is_the_one_with_most_work_in_its_threads() -> None:
    found = read(told(SLICES, MAP, BATCH, PREFETCH, ROOT))
    assert found is not None
    assert found.ahead
    assert found.slowest is not None
    assert (found.slowest.label, found.slowest.batch_ms) == ("decode (train.py:3) in Map", 64.0)
    assert found.slowest.elements == 32
    many = read(told(SLICES, {**MAP, "parallelism": 64}, {**BATCH, "ms": 200.0}, ROOT))
    assert many is not None
    assert many.slowest is not None
    assert many.slowest.name == "BatchV2"
    assert not many.ahead


def test_the_pipeline_with_most_work_counts_at_its_newest() -> None:
    early = told(SLICES, {**MAP, "elements": 320, "ms": 6000.0}, elements=10)
    found = read(early, told(SLICES, MAP, BATCH), told({**SLICES, "ms": 9.0}, dataset=1, elements=1000))
    assert found is not None
    assert found.slowest is not None
    assert found.slowest.batch_ms == 64.0
    assert read() is None


def test_the_verdict_names_the_stage_and_its_cores() -> None:
    said = suspect(facts(read(told(SLICES, MAP, BATCH, PREFETCH)))).sentence
    assert "decode (train.py:3) in Map takes 64 ms per batch (2 ms per element) on 1 of 4 cores" in said


def test_a_map_with_one_thread_may_have_several() -> None:
    (advice,) = data_pipeline(facts(read(told(SLICES, MAP, BATCH, PREFETCH))))
    assert "num_parallel_calls=tf.data.AUTOTUNE" in advice.text
    assert advice.expected_step_ms == pytest.approx(40)
    assert "AUTOTUNE would hide it behind the rest of the step (40 ms)" in advice.why
    # The cores that run the model run the pipeline, too.
    (shared,) = data_pipeline(facts(read(told(SLICES, MAP, BATCH, PREFETCH)), cpus=2, device="cpu"))
    assert shared.expected_step_ms == pytest.approx((64.45 + 40) / 2, abs=0.1)


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ({**MAP, "parallelism": 4, "tuned": True}, ".cache()"),
        ({"name": "Generator", "elements": 100, "ms": 6000.0}, "PyDataset with workers"),
        ({"name": "ParallelInterleaveV4", "elements": 3200, "ms": 6400.0, "parallelism": 1}, "`interleave`"),
    ],
)
def test_the_advice_fits_the_stage(stage: dict[str, Any], words: str) -> None:
    (advice,) = data_pipeline(facts(read(told(SLICES, stage, BATCH, PREFETCH))))
    assert words in advice.text


def test_a_pipeline_that_makes_batches_on_demand_gets_a_buffer_first() -> None:
    first = data_pipeline(facts(read(told(SLICES, MAP, BATCH))))[0]
    assert ".prefetch(tf.data.AUTOTUNE)" in first.text
