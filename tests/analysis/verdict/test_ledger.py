"""The ledger of a job's time: its items, that they add up, and what the verdict takes from it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holter
from holter.analysis.steps.outliers import outliers
from holter.analysis.steps.own_code import OwnCode
from holter.analysis.steps.phases import job_phases
from holter.analysis.steps.warmup import steady
from holter.analysis.verdict import ledger as ledger_module
from holter.analysis.verdict.job_verdict import SUSPECTS
from holter.analysis.verdict.ledger import ledger, with_ledger
from holter.analysis.verdict.result import Verdict
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table

SECOND = 1_000_000_000
HEALTHY = Verdict(suspect="healthy", sentence="No bottleneck found.")


def job(durations, *, start_s=2.0, rest_s=1.0, evaluation_s=0.0, gap_s=0.0, around=(), before=None, **parts):
    """Return the ledger of a job with steps of so many seconds; `parts` are seconds by step."""
    count = len(durations)
    took = (np.array(durations) * SECOND).astype(np.int64)
    begin = np.concatenate([[0], np.cumsum(took + int(gap_s * SECOND))[:-1]]) + int(start_s * SECOND)
    columns = {name: np.zeros(count, np.int64) for name in (*BREAKDOWN, "compile")}
    for name, seconds in parts.items():
        columns[name] = (np.array(seconds) * SECOND).astype(np.int64)
    columns["forward"] = took - sum(columns[name] for name in BREAKDOWN if name != "forward")
    facts = {"rank": np.zeros(count, np.int32), "step": np.arange(count), "node": np.array(["n"] * count)}
    steps = Table({"time": begin, "duration": took, **facts, **columns})
    end = int(begin[-1] + took[-1] + (evaluation_s + rest_s) * SECOND)
    phases = job_phases(0, end, steps, int(evaluation_s * SECOND))
    return ledger(phases, steps, outliers(steps, mask=steady(steps)), around=around, before=before)


def seconds(items):
    return {one.item: pytest.approx(one.seconds, abs=1e-6) for one in items}


def test_a_plain_job_is_start_up_steps_and_end():
    assert seconds(job([0.1] * 100)) == {"startup": 2, "steps": 10, "finalization": 1}


def test_a_stall_is_no_part_of_the_steps():
    items = job([0.1] * 50 + [15.0] + [0.1] * 49)
    assert seconds(items) == {"startup": 2, "steps": 10, "stalls": 14.9, "finalization": 1}
    (stall,) = [one for one in items if one.item == "stalls"]
    assert stall.text == "1 slow step; step 50 took 15 s"


def test_compilation_checkpoints_evaluation_and_gaps_have_items_of_their_own():
    saving = [0.0] * 99 + [3.0]
    items = job(
        [5.0] + [0.1] * 98 + [3.1], compile=[4.5] + [0.0] * 99, checkpoint=saving, evaluation_s=6, gap_s=0.01
    )
    found = seconds(items)
    assert found["compile"] == 4.5
    assert found["checkpoint"] == 3
    assert found["eval"] == 6
    assert found["gaps"] == 0.99
    assert sum(one.pct for one in items) == pytest.approx(100)


def test_what_runs_with_checkpoints_belongs_to_them():
    at = [step % 20 == 15 for step in range(100)]
    took = [1.0 if saves else 0.1 for saves in at]
    # 4.0 of the 14.4 s of the steady steps, as samples say.
    wait = OwnCode("save", "a.py", 4, 100 * 4.0 / 14.4, "time.sleep", "sleep", False, 15, 0.2, True)
    parts = {"checkpoint": [0.1 if saves else 0.0 for saves in at], "other": [0.8 * saves for saves in at]}
    items = job(took, **parts, around=[wait])
    (saving,) = [one for one in items if one.item == "checkpoint"]
    assert saving.seconds == pytest.approx(4.5, abs=0.05)
    assert [child.text for child in saving.children] == ["waiting in save (a.py:4)", "writing"]
    assert saving.children[1].seconds == pytest.approx(0.5, abs=0.01)
    (usual,) = [one for one in items if one.item == "steps"]
    assert [child.item for child in usual.children] == ["forward"]
    assert sum(one.seconds for one in items if one.item == "stalls") < 0.05
    # Without the samples the waits are slow steps.
    assert seconds(job(took, **parts))["stalls"] == 4.0


def test_the_parts_of_usual_steps_hold_no_stall():
    (usual,) = [
        one
        for one in job([0.1] * 50 + [15.0] + [0.1] * 49, other=[0.0] * 50 + [14.9] + [0.0] * 49)
        if one.item == "steps"
    ]
    assert [child.item for child in usual.children] == ["forward"]


def test_an_evaluation_in_the_first_steps_counts_once():
    items = job([4.0] + [0.1] * 60, eval=[3.0] + [0.0] * 60)
    assert seconds(items) == {"startup": 2, "warmup": 0.9, "steps": 6.1, "eval": 3, "finalization": 1}


@given(
    st.lists(st.floats(0.001, 20), min_size=2, max_size=60),
    st.floats(0, 50),
    st.floats(0, 5),
    st.floats(0, 1),
    st.floats(0, 1),
)  # fmt: skip
def test_it_adds_up(durations, start, gap, saved, compiled):
    took = np.array(durations)
    items = job(durations, start_s=start, gap_s=gap, checkpoint=took * saved / 2, compile=took * compiled)
    assert sum(one.pct for one in items) == pytest.approx(100)
    assert all(one.seconds > 0 for one in items)
    for one in items:
        assert not one.children or sum(child.seconds for child in one.children) == pytest.approx(one.seconds)


def test_an_evaluation_that_compiles_is_mostly_compilation():
    steps = [175.0] + [0.2] * 79 + [0.9]
    found = seconds(job(steps, compile=[174.0] + [0.0] * 80, eval=[101.0] + [0.0] * 79 + [0.7]))
    assert (found["compile"], found["eval"], found["steps"]) == (174.0, 1.7, 16.0)


def test_what_outweighs_the_steps_leads_the_verdict():
    compiled = with_ledger(HEALTHY, job([40.0] + [0.1] * 60, compile=[39.0] + [0.0] * 60))
    assert compiled.suspect == "compilation"
    assert compiled.sentence.startswith("Compilation takes 39 s of ")
    assert "TORCHINDUCTOR_CACHE_DIR" in compiled.advice[0].text
    again = with_ledger(HEALTHY, job([4.0] * 10 + [0.1] * 60, compile=[3.9] * 10 + [0.0] * 60), compiling=10)
    assert again.sentence.startswith("Compilation takes 39 s of 49 s in 10 steps.")
    assert "mark_dynamic" in again.advice[0].text
    of_jax = with_ledger(HEALTHY, job([40.0] + [0.1] * 60, compile=[39.0] + [0.0] * 60), framework="jax")
    assert "JAX_COMPILATION_CACHE_DIR" in of_jax.advice[0].text
    late = with_ledger(HEALTHY, job([0.1] * 60, evaluation_s=20))
    assert (late.suspect, late.advice[0].text[:8]) == ("evaluation", "Evaluate")
    slow = Verdict(suspect="data_pipeline", sentence="Data loading takes 90 %.", share_pct=90.0)
    both = with_ledger(slow, job([0.1] * 60, evaluation_s=20))
    assert (both.suspect, both.also) == ("mixed", ["evaluation", "data_pipeline"])
    busy = replace(slow, suspect="contention", also=["data_pipeline"])
    all_three = with_ledger(busy, job([0.1] * 60, evaluation_s=20))
    assert (all_three.suspect, all_three.also) == ("mixed", ["evaluation", "contention", "data_pipeline"])


def test_its_suspects_and_items_are_published():
    published = json.loads((Path(holter.__file__).parent / "views/description.schema.json").read_text())
    suspects = published["$defs"]["JobVerdict"]["properties"]["suspect"]["enum"]
    assert set(ledger_module.SUSPECTS.values()) <= set(suspects) == set(SUSPECTS)
    assert published["$defs"]["LedgerEntry"]["properties"]["item"]["enum"] == list(ledger_module.NAMES)


def test_the_start_up_of_a_short_job_is_not_accused():
    short = with_ledger(HEALTHY, job([0.1] * 20, start_s=20))
    assert short.suspect == "healthy"
    assert short.sentence == (
        "The training loop is 9 % of this job (2 s of 23 s): start-up takes 20 s. No bottleneck found."
    )
    assert with_ledger(HEALTHY, job([0.1] * 20, start_s=200)).suspect == "startup"
    assert with_ledger(HEALTHY, []) == HEALTHY


@pytest.mark.parametrize(("waits", "tool"), [(150.0, "ray start --head"), (40.0, "importtime")])
def test_advice_about_start_up_is_about_ray_where_its_workers_come_late(waits, tool):
    items = job([0.1] * 20, start_s=200, before={ledger_module.BEFORE_RAY: waits})
    found = with_ledger(HEALTHY, items)
    assert (found.suspect, tool in found.advice[0].text) == ("startup", True)
    assert ("150 s of it before the first worker" in found.sentence) == (waits > 100)


def test_what_the_verdict_leaves_out_is_named_from_15_percent_on():
    assert with_ledger(HEALTHY, job([0.1] * 100, start_s=1, rest_s=0)).sentence == HEALTHY.sentence
    found = with_ledger(HEALTHY, job([0.1] * 100, start_s=4, rest_s=1))
    assert found.sentence == (
        "No bottleneck found. The training loop is 67 % of this job (10 s of 15 s): start-up takes 4 s."
    )
    items = job([0.1] * 100, start_s=1, rest_s=0, evaluation_s=4)
    assert "evaluation after it takes 4 s" in with_ledger(HEALTHY, items, 4).sentence
