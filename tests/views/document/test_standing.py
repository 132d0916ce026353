"""A job that cannot be judged says where it stands; a crash before the first step is the only news."""

from __future__ import annotations

import pytest

from holter.views.document.standing import FAILED, placed

JUDGED = {
    "suspect": "inconclusive",
    "sentence": "Too few.",
    "evidence": [1],
    "advice": [1],
    "missing": ["steps"],
}
TORCH = {"name": "pytorch", "version": "2", "device": "cpu"}


@pytest.mark.parametrize(
    ("framework", "steps", "steady", "said"),
    [
        (None, 0, 0, "Starting: no framework was found yet, the job has run for 5 s."),
        (TORCH, 0, 0, "Waiting for the first step: pytorch was found, the job has run for 5 s."),
        (TORCH, 1, 0, "Warming up: 1 step so far."),
        (TORCH, 9, 3, "Judging: 3 steady steps so far, 5 are necessary for a verdict."),
        (TORCH, 30, 20, "Too few."),
    ],
)
def test_a_running_job_says_where_it_stands(framework, steps, steady, said):
    job = {"status": "InProgress", "duration_s": 5.0, "framework": framework}
    found = placed(JUDGED, job, running=True, steps=steps, steady=steady)
    assert found["sentence"] == said
    assert bool(found["advice"]) is (said == "Too few."), "advice waits for a verdict"


def test_a_job_without_steps_for_minutes_gets_its_advice():
    job = {"status": "InProgress", "duration_s": 300.0, "framework": TORCH}
    assert placed(JUDGED, job, running=True, steps=0, steady=0) == JUDGED


@pytest.mark.parametrize(("seconds", "only"), [(8.0, True), (300.0, False)])
def test_a_crash_before_the_first_step_is_the_only_news(seconds, only):
    job = {"status": "Failed", "duration_s": seconds, "framework": TORCH}
    found = placed(JUDGED, job, running=False, steps=0, steady=0)
    assert (found["sentence"] == FAILED) is only
    assert (found["advice"] == []) is only
    assert placed(JUDGED, job, running=False, steps=3, steady=0) == JUDGED
