"""One job with two trainings in sequence; the parent of the second evaluates its model."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from tests.jobs.starting import TRAININGS, Finished, Jobs, here


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Finished:
    python = shlex.join([sys.executable, str(TRAININGS / "one_after_the_other.py")])
    jobs = Jobs(tmp_path_factory.mktemp("two") / "store")
    done = jobs.run("sh", "-c", f"{python} 12 here && {python} 7 elsewhere")
    assert done.code == 0, done.stderr
    return done


def test_steps_are_those_that_train(job):
    assert job.describe()["steps"]["trainings"] == [12, 7]
    assert "2 trainings ran one after the other: 12 + 7 steps" in job.stderr
    assert set(job.table("steps")["mode"].tolist()) == {"train"}


def test_no_curve_goes_on_in_the_next_training(job, tmp_path: Path):
    told = {(one["name"], one["mode"]): one["steps"] for one in job.describe()["numbers"]}
    assert told["loss (training 1)", "train"] == 12
    assert told["loss (training 2)", "train"] == 7
    assert ("loss", "train") not in told
    page = tmp_path / "report.html"
    here("report", job.job, "--store", str(job.store), "-o", str(page))
    assert "loss (training 2)" in page.read_text()


def test_evaluation_after_the_last_step_is_no_finalization(job):
    phases = job.describe()["phases"]
    assert phases["evaluation_s"] >= 0.95
    assert "evaluation" in here("describe", job.job, "--store", str(job.store)).stdout
