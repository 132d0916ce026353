"""Tests of the rule ResourceGrowth."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import MIB, START, look, samples

from holter.rules import Job
from holter.rules.system.resource_growth import ResourceGrowth

COUNT = 140
"""Readings of half a second: 70 s."""
JOB = Job(start=START, first_step=START)
RAMP = np.arange(COUNT, dtype=float)


def judged(**series):
    names = {"files": "proc.files", "threads": "proc.threads", "count": "proc.count", "shm": "shm.used"}
    given = {(names[name], "" if name == "shm" else "trainer"): values for name, values in series.items()}
    return look(ResourceGrowth(), job=JOB, samples=samples(given))


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("files", 100 + 3 * RAMP, "open files of the job on n0 grew steadily, by 6"),
        ("threads", 20 + RAMP // 2, "threads of the job on n0 grew steadily, by 1"),
        ("count", 4 + RAMP // 5, "processes of the job on n0 grew steadily, by 0.4"),
        ("shm", 1e8 + 4e6 * RAMP, "shared memory of the job on n0 grew steadily, by 8"),
    ],
)
def test_what_grows_is_found_after_a_minute(name, values, says):
    (issue,), _ = judged(**{name: values})
    assert issue.severity == "warning"
    assert issue.summary.startswith(says), issue.summary


def test_growth_of_a_large_level_is_a_note():
    (issue,), _ = judged(files=5000 + 3 * RAMP)
    assert issue.severity == "info"


def test_healthy_jobs_are_silent():
    random = np.random.default_rng(0)
    issues, window = judged(
        files=np.minimum(100 + 10 * RAMP, 400),  # workers open their shards
        threads=40.0 + random.integers(0, 3, COUNT),
        count=np.where(RAMP % 40 < 30, 1.0, 9.0),  # workers of each epoch
        shm=1e8 + 64 * MIB * random.random(COUNT),
    )
    assert issues == []
    assert window.points == 4


def test_it_waits_for_the_first_minute_and_says_what_is_missing():
    early = samples({("proc.files", "trainer"): 100 + 3 * RAMP[:80]})
    issues, window = look(ResourceGrowth(), job=JOB, samples=early)
    assert (issues, window.lack.reason) == ([], "patience_not_reached")
    issues, window = look(ResourceGrowth(), job=JOB, samples=samples({("cpu.util", ""): RAMP}))
    assert (issues, window.lack.reason) == ([], "no_input")


def test_what_the_end_of_the_loop_releases_does_not_hide_growth():
    threads = np.where(RAMP < 110, 20 + RAMP // 2, 2.0)
    given = samples({("proc.threads", "trainer"): threads})
    job = Job(start=START, first_step=START, active={0: START + 109 * 500_000_000})
    (issue,), _ = look(ResourceGrowth(), job=job, samples=given)
    assert issue.time_end == job.active[0]
    assert look(ResourceGrowth(), job=JOB, samples=given)[0] == []
