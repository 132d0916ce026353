"""One boundary ends several steps: numbers, rates, saved steps, windows and the time left are right."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.jobs.starting import Finished, Jobs, here

from holter.store.job import find
from holter.store.trial import Trial
from holter.views.document.progress import progress
from holter.views.reading import Reading


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    options = ("--save", "/position/@25", "--profile-steps", "103:106:cprofile", "--total-steps", "800")
    return Jobs(tmp_path_factory.mktemp("at-once")).train("at_once.py", options=options)


def test_each_step_of_a_call_is_counted_and_has_its_part_of_the_time(job: Finished) -> None:
    told, steps, spans = job.describe(), job.table("steps"), job.table("spans")
    assert told["cost"]["faults"] == []
    assert told["steps"]["count"] == 400
    assert told["steps"]["at_once"] == 10
    assert steps["step"].tolist() == list(range(400))
    assert set(steps["at_once"].tolist()) == {10}
    calls = spans.where(spans["phase"] == "step")
    assert calls["step"].tolist() == list(range(0, 400, 10))
    assert set(calls["value"].tolist()) == {10.0}
    assert int(steps["duration"].sum()) == pytest.approx(int(calls["duration"].sum()), rel=1e-6)
    within = steps["step"][1:] % 10 != 0
    ends = (steps["time"] + steps["duration"])[:-1]
    assert np.array_equal(steps["time"][1:][within], ends[within])
    # The first calls are warm-up, and may take longer.
    assert told["steps"]["per_second"] > 5 * 40e9 / float(calls["duration"].sum())
    assert told["steps"]["mean_ms"] == pytest.approx(1000 / told["steps"]["per_second"])


def test_a_reader_is_told_that_one_call_runs_several_steps(job: Finished) -> None:
    said = "one call runs 10 steps"
    assert said in job.stderr
    assert said in here("describe", job.job, "--store", str(job.store)).stdout
    report = job.store.parent / "report.html"
    here("report", job.job, "--store", str(job.store), "--output", str(report))
    assert "One call runs 10 steps" in report.read_text()


def test_a_tensor_is_saved_by_the_call_that_runs_its_step(job: Finished) -> None:
    saved = Trial(find(str(job.store), job.job)).table("tensors").to_rows()
    assert sorted(row["step"] for row in saved if row["name"] == "position") == [
        25 * at - 25 * at % 10 for at in range(16)
    ]


def test_a_window_covers_the_calls_that_run_its_steps(job: Finished) -> None:
    events = job.table("events").to_rows()
    (window,) = [json.loads(row["detail"]) for row in events if row["kind"] == "window"]
    assert (window["first_step"], window["last_step"]) == (100, 110), window


def test_the_time_left_counts_steps_and_not_calls(job: Finished) -> None:
    found = progress(Reading(Trial(find(str(job.store), job.job))))
    assert (found["step"], found["total"], found["share_pct"]) == (400, 800, 50.0)
    assert found["left_s"] == pytest.approx(400 / found["per_second"])
