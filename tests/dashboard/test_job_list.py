"""The list of jobs: how far running jobs are, the course of the step time, tags and groups."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from tests.cli.conftest import command, job, told
from tests.dashboard.conftest import Looked, fits, violations
from tests.dashboard.serving import serving

from holter.dashboard.job_list import JobList
from holter.dashboard.listing import ASKED, page
from holter.store.job import JobFolder, find
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.course import POINTS, course
from holter.views.jobs import chip, summary

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright comes with the extra dev")
STEPS = """
import time, holter
for step in range(60):
    with holter.step():
        time.sleep(0.002 if step < 30 else 0.02)
"""


def took(folder: JobFolder, count: int) -> JobFolder:
    """Let a job have taken some steps a moment ago, each of 10 ms."""
    now, each = time.time_ns(), 10_000_000
    rows = {
        "time": np.array([now - (count - at) * each for at in range(count)]),
        "duration": np.full(count, each),
        "rank": np.zeros(count, np.int32),
        "step": np.arange(count),
    }
    parts = Trial(folder).table("steps")
    more = {name: np.zeros(count, parts[name].dtype) for name in parts.names if name not in (*rows, "node")}
    writer = Writer(folder, "node-0")
    writer.append("steps", {**more, **rows})
    writer.close()
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("listed") / "store")
    for at in range(3):
        job(
            f"sweep-lr0.{at}",
            folder,
            tags={"model": "vit", "lr": f"0.{at}"},
            step_course=[1.0, 2.0, None, 4.0],
        )
    job("alone", folder, tags={"baseline": ""})
    job("young", folder, status="InProgress", age_s=1)
    job("slow-start", folder, status="InProgress", age_s=300).write_node("n", {"heartbeat": time.time_ns()})
    took(job("begun", folder, status="InProgress", age_s=2), 5)
    took(job("warm", folder, status="InProgress", age_s=20), 400)
    issue = {"summary": "Loss turned NaN in step 7", "severity": "critical", "evidence": {}, "advice": ""}
    rule = {"rule": "r", "name": "r", "status": "IssuesFound", "parameters": {}, "issues": [issue]}
    job("sick", folder, status="InProgress", age_s=5).write_evaluations({"rules": [rule]})
    return folder


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("young", "starting"),
        ("slow-start", "no step yet"),
        ("begun", "first steps"),
        ("warm", "judging"),
        ("sick", "problem"),
    ],
)
def test_a_running_job_says_how_far_it_is(store, name, says):
    assert chip(summary(find(store, name), time.time_ns()))[0] == says


def test_a_running_job_draws_the_steps_of_the_last_hour(store):
    listed = summary(find(store, "warm"), time.time_ns())
    assert listed["step"] == 400
    assert listed["course"] == [10.0] * POINTS
    assert summary(find(store, "begun"), time.time_ns())["step"] == 5


def test_a_job_whose_agent_is_silent_is_said_to_be_and_ran_until_its_last_sign(tmp_path):
    folder = job("gone", str(tmp_path), status="InProgress", age_s=600)
    folder.write_node("n", {"heartbeat": time.time_ns() - 300 * 10**9})
    listed = summary(folder, time.time_ns())
    assert listed["duration_s"] == pytest.approx(300, abs=5)
    drawn = page([{**listed, "store": 0}], [], dict.fromkeys(ASKED, ""))
    assert '<span class="pill sick">Silent</span>' in drawn
    assert "its agent said nothing for 5 min" in drawn


def test_the_course_is_the_median_of_equal_stretches(tmp_path):
    trial = Trial(told("before", str(tmp_path), ranks=2, cores=2, steps=200, samples=20)[0])
    from holter.views.tables import steps_of

    steps = steps_of(trial)
    begin = steps["time"] - steps["time"].min()
    at = np.minimum(begin * POINTS // begin.max(), POINTS - 1)
    expected = [
        np.median(steps["duration"][at == one]) / 1e6 if (at == one).any() else None for one in range(POINTS)
    ]
    assert course(trial) == pytest.approx(expected, rel=0.006)


def test_tags_and_the_course_of_a_run_are_kept_and_listed(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(STEPS)
    done = command(
        "run", "--job", "one", "--tag", "model=vit", "--tag", "baseline", "--store", "jobs", "--",
        sys.executable, str(script), cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    manifest = find(str(tmp_path / "jobs"), "one").manifest()
    assert manifest["tags"] == {"model": "vit", "baseline": ""}
    drawn = [value for value in manifest["step_course"] if value is not None]
    assert min(drawn) < 10 < drawn[-1], "steps of 2 ms first, of 20 ms at the end"
    assert "one" in command("jobs", "--store", "jobs", "--tag", "model=vit", cwd=tmp_path).stdout
    assert "None of" in command("jobs", "--store", "jobs", "--tag", "model=cnn", cwd=tmp_path).stdout
    refused = command("run", "--tag", "=x", "--", "true", cwd=tmp_path)
    assert refused.returncode == 64
    assert "KEY=VALUE" in refused.stderr


def test_jobs_are_narrowed_and_grouped_by_tag_and_by_name(look):
    seen = look("/")
    names = seen.page.locator("tbody td:nth-child(2) > a")
    seen.page.get_by_role("link", name="lr=0.1").click()
    assert names.all_inner_texts() == ["sweep-lr0.1"]
    seen.page.get_by_label("tag", exact=True).fill("model")
    seen.page.get_by_role("button", name="Search").click()
    assert names.all_inner_texts() == ["sweep-lr0.2", "sweep-lr0.1", "sweep-lr0.0"]
    seen.page.get_by_label("tag", exact=True).fill("")
    seen.page.get_by_label("groups").select_option("name")
    seen.page.get_by_role("button", name="Search").click()
    groups = seen.page.locator("tr.group")
    assert "sweep 3 jobs" in groups.all_inner_texts()
    assert names.count() == 9, "each job once"
    seen.page.get_by_label("groups").select_option("tag:model")
    seen.page.get_by_role("button", name="Search").click()
    assert groups.all_inner_texts() == ["vit 3 jobs", "without a group 6 jobs"]
    assert violations(seen.page) == []
    assert seen.wrong == []


def test_each_job_with_a_course_has_a_small_curve_also_on_a_phone(look):
    seen = look("/", width=400)
    curve = seen.page.locator("tr", has_text="sweep-lr0.1").get_by_role("img")
    assert curve.get_attribute("aria-label") == "step time, 1 ms to 4 ms"
    fits(seen.page, 400)
    assert violations(seen.page) == []


def test_the_list_follows_the_steps_of_a_running_job(browser, tmp_path):
    folder = took(job("live", str(tmp_path / "store"), status="InProgress", age_s=2), 5)
    with serving(tmp_path / "store") as server:
        context = browser.new_context()
        seen = Looked(context, server)
        seen.page.goto(f"http://{server.own}/?token=secret-token")
        row = seen.page.locator("tbody tr")
        playwright.expect(row).to_contain_text("step 5")
        playwright.expect(row).to_contain_text("first steps")
        took(folder, 4321)
        playwright.expect(row).to_contain_text("step 4,321")
        playwright.expect(row).to_contain_text("judging")
        assert seen.wrong == []
        context.close()


def test_a_running_job_is_read_now_and_then_and_at_once_when_it_ends(tmp_path):
    folder = took(job("live", str(tmp_path), status="InProgress", age_s=30), 5)
    listing = JobList([str(tmp_path)])

    def now():
        time.sleep(0.5)  # as long as a list is valid at least
        return listing.all()[0][0]

    assert now()["step"] == 5
    took(folder, 50)
    assert now()["step"] == 5, "it was read a moment ago"
    folder.update(status="Completed")
    assert now()["status"] == "Completed"
    folder.update(status="InProgress")
    assert now()["step"] == 50


def test_a_list_of_thousands_of_jobs_with_courses_and_tags_reads_each_once(tmp_path):
    for at in range(2000):
        job(
            f"sweep-{at}",
            str(tmp_path),
            tags={"lr": str(at % 7)},
            step_course=[float(one) for one in range(POINTS)],
        )
    listing = JobList([str(tmp_path)])
    listed, wrong = listing.all()
    began = time.process_time()
    again, wrong = listing.all()
    drawn = page(again, wrong, {**dict.fromkeys(ASKED, ""), "group": "tag:lr"})
    assert len(listed) == 2000
    assert drawn.count("<svg") == 100, "one page"
    assert time.process_time() - began < 5
