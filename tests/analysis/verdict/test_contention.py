"""Contention: who wants the cores, and the setting to change."""

from __future__ import annotations

import pytest

from holter.analysis.jobs.stragglers import Straggler
from holter.analysis.machine.load import Load
from holter.analysis.steps.own_code import OwnCode
from holter.analysis.verdict.job_facts import Stall, VerdictFacts
from holter.analysis.verdict.job_verdict import verdict


def judged(*, ranks=(0,), stalls=None, stragglers=(), evaluation=0.0, framework=None, **load):
    """Return the verdict on a job that computes, on a node with four cores."""
    facts = VerdictFacts(
        breakdown={"forward": 90.0 - evaluation, "eval": evaluation, "other": 10.0},
        steady_steps=100,
        step_ms=50.0,
        mean_step_ms=50.0,
        ranks=ranks,
        device="cpu",
        framework=framework,
        loads=[Load(**{"node": "n", "cpus": 4, "cpu_p50": 99.0, **load})],
        stalls=stalls or {},
        stragglers=list(stragglers),
    )
    return verdict(facts)


def texts(found):
    return [one.text for one in found.advice]


def test_threads_of_the_job_are_told_from_other_programs():
    own = judged(trainer_delay=60.0, trainer_runnable=15.8, others={"top (ann)": 30.0})
    assert own.suspect == "contention"
    assert "the job's own threads want 15.8 of 4 cores." in own.sentence
    assert texts(own) == ["Use 4 threads per training process: OMP_NUM_THREADS=4."]
    others = judged(trainer_delay=60.0, trainer_runnable=4.0, others={"stress (ann)": 390.0})
    assert "other programs use 3.9 of 4 cores (stress (ann))" in others.sentence
    assert "OMP_NUM_THREADS" not in texts(others)[0]


def test_programs_that_run_shortly_count_among_the_others():
    load = {"trainer_delay": 60.0, "trainer_runnable": 1.0, "foreign_core": 350.0}
    some = judged(**load, others={"make (ann)": 80.0})
    assert "other programs use 3.5 of 4 cores (among them make (ann))" in some.sentence
    none = judged(**load)
    assert "other programs use 3.5 of 4 cores (each of them shortly)" in none.sentence
    assert "Stop the other programs" in texts(none)[0]
    unknown = judged(trainer_delay=60.0, trainer_runnable=1.0)
    assert "no other program was seen on the cores" in unknown.sentence


def test_each_rank_gets_its_share_of_the_cores():
    found = judged(ranks=(0, 1), trainer_delay=40.0, trainer_runnable=7.5)
    assert texts(found) == ["Use 2 threads per training process: OMP_NUM_THREADS=2."]


def test_no_variable_is_advised_that_the_framework_does_not_read():
    (advice,) = texts(judged(trainer_delay=60.0, trainer_runnable=15.8, framework="jax"))
    assert "OMP_NUM_THREADS" not in advice


def test_workers_are_counted():
    found = judged(trainer_delay=40.0, trainer_runnable=1.0, worker_runnable=11.0, workers=12.0)
    assert "want 12.0 of 4 cores (1.0 for training, 11.0 for 12 workers)" in found.sentence
    assert texts(found) == ["Lower num_workers from 12 to 3."]


def test_a_quota_counts_as_the_number_of_cores():
    load = {"trainer_delay": 40.0, "trainer_runnable": 4.0, "cpu_quota": 1.5}
    found = judged(**load, quota_ran_out_pct=80.0)
    assert "the job's own threads want 4.0 of 1.5 cores" in found.sentence
    assert "quota runs out in 80 % of the scheduling periods" in found.sentence
    assert texts(found)[0].startswith("Raise the CPU quota")
    assert "OMP_NUM_THREADS=1." in texts(found)[1]


def test_a_stop_comes_before_all_other_causes():
    stalls = {"other": Stall(80.0, 7, 4000.0)}
    found = judged(stopped_pct=60.0, trainer_delay=50.0, stalls=stalls)
    assert (found.suspect, found.share_pct) == ("contention", 60.0)
    assert found.sentence == (
        "The training is stopped 60 % of the time, as SIGSTOP and debuggers do (step 7 took 4 s)."
    )
    assert "kill -CONT" in texts(found)[0]
    late = Straggler(1, "n", 90.0, 50.0, 0.8, 1.0, 0.4, "data_loading", 40.0, 40.0)
    assert judged(ranks=(0, 1), stopped_pct=60.0, stragglers=[late]).also == []


@pytest.mark.parametrize(
    ("load", "suspect"),
    [
        ({"major_faults": 300.0, "swap_in": 8e6}, "memory_pressure"),
        ({"major_faults": 300.0, "swap_in": 0.0}, "healthy"),  # files in memory
        ({"major_faults": 300.0}, "healthy"),
        ({"major_faults": 0.0, "swap_in": 8e6}, "healthy"),  # another program swaps
    ],
)
def test_swapping_is_named(load, suspect):
    found = judged(**load)
    assert found.suspect == suspect
    assert ("swaps" in found.sentence) == (suspect == "memory_pressure")


def test_busy_cores_alone_are_no_contention():
    assert judged(trainer_delay=5.0, trainer_runnable=4.2, stopped_pct=0.0).suspect == "healthy"
    # What the kernel does not count is unknown.
    assert judged().suspect == "healthy"


@pytest.mark.parametrize(
    ("waits", "first", "second"), [(70.0, "contention", "evaluation"), (48.0, "evaluation", "contention")]
)
def test_contention_comes_first_where_it_takes_most_of_the_time(waits, first, second):
    found = judged(evaluation=40.0, trainer_delay=waits, others={"stress (ann)": 390.0})
    assert (found.suspect, found.also) == (first, [second])
    assert found.sentence.startswith("The training waits" if first == "contention" else "Evaluation takes")
    assert "Evaluation takes" in found.sentence
    assert "other.cpu" in {one.metric for one in found.evidence}


def test_a_smaller_share_of_data_loading_names_its_generator():
    own = OwnCode(
        function="stream", file="a.py", line=4, pct=27.0, calls="time.sleep", waits_in="sleep", iterates=True,
        step=3, step_share=0.1, checkpoints=False, generator=True,
    )  # fmt: skip
    facts = VerdictFacts(
        breakdown={"forward": 70.0, "data_loading": 27.0, "other": 3.0}, steady_steps=100, step_ms=50.0,
        mean_step_ms=50.0, ranks=(0,), device="cpu", own_code=[own],
        loads=[Load(node="n", cpus=4, trainer_delay=70.0, others={"stress (ann)": 390.0})],
    )  # fmt: skip
    said = verdict(facts).sentence
    assert "The training waits for a core 70 % of the time" in said
    assert (
        "data loading takes 27 % of the loop's time: generator stream (a.py:4), in time.sleep, worth up"
        in said
    )
