"""Step times without one cause: those of formulas, and those of a published analysis of real jobs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.analysis.jobs.worker_timelines import pipeline, step_ms
from tests.analysis.kineto import given, load

from holter.analysis.jobs.what_if import what_if
from holter.analysis.jobs.worker_timeline import timeline_of
from holter.analysis.verdict.what_if_verdict import of_replay
from holter.schema.table import Table


def replay(work, **shape):
    timeline = timeline_of(*pipeline(work, **shape))
    assert timeline is not None
    found = what_if(timeline)
    assert found is not None
    return found


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_equal_workers_take_what_the_formula_says_and_have_no_cause(stages, raw):
    found = replay(lambda *_: 10, stages=stages, raw=raw)
    assert found.step_ms == pytest.approx(step_ms(10, stages, 4), rel=1e-3)
    assert found.recorded_ms == pytest.approx(found.step_ms, rel=1e-3)
    assert found.slowdown == pytest.approx(1, rel=1e-3)
    assert of_replay(found) is None


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_replay_of_unequal_work_takes_as_long_as_the_recording(seed, raw):
    random = np.random.default_rng(seed)
    times = random.uniform(5, 20, (3, 3, 4, 4))
    found = replay(lambda *at: times[at], raw=raw)
    assert found.step_ms == pytest.approx(found.recorded_ms, rel=1e-3)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(("replica", "stage"), [(0, 0), (2, 1), (1, 2)])
def test_without_its_slow_worker_a_job_takes_as_long_as_its_healthy_twin(replica, stage, raw):
    found = replay(lambda r, s, *_: 25 if (r, s) == (replica, stage) else 10, raw=raw)
    worst = found.causes[0]
    assert (worst.kind, worst.name) == ("worker", f"stage {stage} of data-parallel rank {replica}")
    assert worst.step_ms == pytest.approx(step_ms(10, 3, 4), rel=1e-3)
    told = of_replay(found)
    assert told is not None
    assert f"Stage {stage} of data-parallel rank {replica} computes 2.4" in told.sentence
    assert told.advice[0].expected_step_ms == worst.step_ms


def test_a_slow_rank_of_a_job_without_stages_is_named():
    found = replay(lambda r, *_: 15 if r == 2 else 10, stages=1)
    assert (found.causes[0].kind, found.causes[0].name) == ("worker", "data-parallel rank 2")
    assert found.causes[0].step_ms == pytest.approx(step_ms(10, 1, 4), rel=1e-3)


def test_a_heavy_stage_is_a_stage_and_no_worker():
    found = replay(lambda _, s, *__: 22 if s == 2 else 10)
    worst = found.causes[0]
    assert (worst.kind, worst.name) == ("stage", "stage 2")
    assert worst.step_ms == pytest.approx(step_ms(14, 3, 4), rel=0.02)  # equal stages share its work
    told = of_replay(found)
    assert told is not None
    assert "With equal stages the job would run" in told.sentence
    assert "Move layers from stage 2" in told.advice[0].text


def test_unequal_micro_batches_are_neither_a_worker_nor_a_stage():
    found = replay(lambda r, _, m, step: 20 if m == (r + step) % 4 else 10, steps=8)
    worst = found.causes[0]
    assert worst.kind == "micro_batches"
    assert worst.step_ms == pytest.approx(step_ms(12.5, 3, 4), rel=1e-3)
    told = of_replay(found)
    assert told is not None
    assert "unequally long from micro-batch to micro-batch" in told.sentence


def test_one_of_two_slow_workers_gains_nothing_alone():
    found = replay(lambda r, s, *_: 20 if (r, s) in ((0, 1), (3, 1)) else 10, replicas=5)
    told = of_replay(found)
    assert told is not None
    assert found.causes[0].kind == "workers"
    assert found.causes[0].step_ms == pytest.approx(step_ms(10, 3, 4), rel=1e-3)
    alone = [cause.speedup for cause in found.causes if cause.kind == "worker"]
    assert alone == pytest.approx([1, 1], abs=0.01)
    assert told.sentence.startswith("2 workers compute")


def test_threads_without_a_place_in_the_job_are_no_timeline():
    operators, tracks = pipeline(lambda *_: 10)
    named = Table({**tracks.columns, "name": np.full(tracks.rows, "worker", object)})
    assert timeline_of(operators, named) is None
    assert timeline_of(operators.where(np.zeros(operators.rows, dtype=bool)), tracks) is None


@pytest.mark.parametrize("detail", ["", "{", "[1]", '{"step": "one"}', "[" * 10_000])
def test_operators_that_name_no_step_are_no_timeline(detail):
    operators, tracks = pipeline(lambda *_: 10)
    unknown = Table({**operators.columns, "detail": np.full(operators.rows, detail, object)})
    assert timeline_of(unknown, tracks) is None


def test_a_timeline_that_the_model_cannot_replay_promises_nothing():
    """Calls lie inside of other calls: one after the other, they would take longer than the recording."""
    operators, tracks = pipeline(lambda *_: 10)
    inside = Table({**operators.columns, "name": np.full(operators.rows, "call", object)})
    timeline = timeline_of(Table.concat([operators, inside]), tracks)
    assert timeline is not None
    assert what_if(timeline) is None


def test_one_step_is_too_few():
    timeline = timeline_of(*pipeline(lambda *_: 10, steps=1))
    assert timeline is not None
    assert what_if(timeline) is None


@pytest.mark.parametrize(("name", "kind", "cause"), [
    ("AR", "worker", "stage 0 of data-parallel rank 0"),
    ("ST", "stage", "stage 3"),
])  # fmt: skip
def test_slowdowns_of_real_jobs_are_those_of_the_published_analysis(name, kind, cause):
    tables = load(given("traces", "bytedance-straggler", f"timeline-{name}.json.gz"))
    published = json.loads(given("traces", "bytedance-straggler", f"result-{name}.json").read_text())
    timeline = timeline_of(tables["operators"], tables["tracks"])
    assert timeline is not None
    found = what_if(timeline)
    assert found is not None
    assert found.slowdown == pytest.approx(published["blocking_slowdown"], rel=0.02)
    assert found.by_stage == pytest.approx(published["blocking_decompose_by_stage"], rel=0.02)
    assert found.by_replica == pytest.approx(published["blocking_decompose_by_dp_rank"], rel=0.02)
    of_names = published["blocking_decompose_by_optype"]
    shared = set(found.by_operation) & set(of_names)  # the publication has one name for send and receive
    assert {"forward-compute", "backward-compute", "grads-reduce-scatter"} <= shared
    assert {n: found.by_operation[n] for n in shared} == pytest.approx(
        {n: of_names[n] for n in shared}, rel=0.02
    )
    assert (found.causes[0].kind, found.causes[0].name) == (kind, cause)


@pytest.mark.parametrize("name", ["AR", "ST"])
def test_ideal_timelines_of_real_jobs_have_no_cause(name):
    tables = load(given("traces", "bytedance-straggler", f"ideal-timeline-{name}.json.gz"))
    timeline = timeline_of(tables["operators"], tables["tracks"])
    assert timeline is not None
    found = what_if(timeline)
    assert found is not None
    assert found.slowdown == pytest.approx(1, abs=0.01)
    assert of_replay(found) is None
