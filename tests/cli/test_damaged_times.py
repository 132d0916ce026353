"""Rules judge the time of the rows, independent of the times in the manifest."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import job, told

from holter.evaluation.facts import FAR_NS
from holter.store.job import create
from holter.store.writer import Writer

DAY_NS = 24 * 3600 * 10**9


@pytest.mark.parametrize(
    "change",
    ["missing", "half", "a folder", {"end": 2**62}, {"start": 0, "created": 0}, {"end": None, "start": 5}],
)
def test_rules_judge_the_time_of_the_rows_whatever_the_manifest_says(change, holter, tmp_path):
    folder, _ = told("after", ranks=1, cores=1, steps=30, samples=30)
    rules = ("StepOutlier",)
    sound = holter("rules", "run", "after", *rules, "--json")
    manifest = tmp_path / "holter-jobs/after/job.json"
    if isinstance(change, dict):
        folder.update(**change)
    else:
        text = manifest.read_text()
        manifest.unlink()
        if change == "half":
            manifest.write_text(text[: len(text) // 2])
        elif change == "a folder":
            manifest.mkdir()
    found = holter("rules", "run", "after", *rules, "--json")
    assert found.code == sound.code
    one, other = (json.loads(answer.out)["rules"][0] for answer in (sound, found))
    assert other["issues"] == one["issues"]
    # The looks are the same, but for those at the manifest's own first and last moments.
    assert abs(other["evaluations"] - one["evaluations"]) <= 3


def test_a_job_without_rows_that_says_it_took_years_is_judged_at_once(holter):
    job("empty").update(start=10**18, end=10**18 + 30_000 * DAY_NS)
    answer = holter("rules", "run", "empty", "StepOutlier", "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["rules"][0]["evaluations"] < FAR_NS / 10**10


def test_rows_that_lie_years_apart_are_refused_in_words(holter):
    folder = create("holter-jobs", "far", command=[], interval_ms=500, rules=[], now_ns=10**18)
    writer = Writer(folder, "n0")
    writer.append("scalars", {"time": [1, 10**18], "name": ["loss"] * 2, "value": [1.0, 2.0]})
    writer.close()
    answer = holter("rules", "run", "far", "StepOutlier")
    answer.refused(65, "11,574 days apart", "at most 1,000 days")
