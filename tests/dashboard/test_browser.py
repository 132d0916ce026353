"""The pages in a real browser: light and dark, narrow and wide, by keyboard, live, and fit for everybody."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import SOURCE, job, told
from tests.dashboard.conftest import Looked, fits, settled, violations
from tests.dashboard.serving import serving
from tests.dashboard.stories import judged

from holter.store.job import find

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright comes with the extra dev")
expect = playwright.expect
pytestmark = pytest.mark.slow
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
PAGES = [
    "/",
    "/jobs/before",
    "/jobs/before/nodes?cores=cpu1",
    "/jobs/before/insights",
    "/jobs/before?from=20&to=60&axis=step",
    "/jobs/empty",
    "/jobs/empty/nodes",
    "/jobs/empty/insights",
    "/jobs/sick",
    "/jobs/sick/insights",
    "/jobs/running/settings",
    "/jobs/broken",
    "/compare?job=0/before&job=0/after",
    "/jobs/none",
    "/?name=zzz",
]


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("seen") / "store"
    for name in ("before", "after"):
        judged(told(name, str(folder), ranks=2, cores=8, steps=100, samples=300)[0])
    job("empty", str(folder))
    job("running", str(folder), status="InProgress", age_s=1)
    job("broken", str(folder))
    (folder / "broken/job.json").write_text("{")
    sick = job("sick", str(folder), status="Failed", command=["python", HOSTILE])
    issue = {"summary": HOSTILE, "severity": "critical", "evidence": {"x": HOSTILE}, "advice": HOSTILE}
    rule = {"rule": "r", "name": HOSTILE, "status": "IssuesFound", "parameters": {}, "issues": [issue]}
    sick.write_evaluations({"rules": [rule]})
    return folder


@pytest.fixture(scope="module")
def server(store):
    with serving(store) as running:
        yield running


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_quiet_and_fit_for_everybody(look, path):
    seen = look(path)
    settled(seen.page)
    for scheme in ("light", "dark"):
        seen.page.emulate_media(color_scheme=scheme)
        assert violations(seen.page) == [], scheme
    # The page of a job that is not there is answered with 404, which Chromium calls an error of its own.
    assert [text for text in seen.wrong if "404" not in text] == []


@pytest.mark.parametrize("width", [400, 2500])
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/jobs/before",
        "/jobs/before/nodes",
        "/jobs/before/insights",
        "/jobs/sick",
        "/jobs/running/settings",
    ],
)
def test_no_page_is_wider_than_the_window(look, path, width):
    page = look(path, width=width).page
    settled(page)
    fits(page, width)
    assert violations(page) == []


def test_jobs_are_found_marked_and_compared_by_keyboard(look):
    seen = look("/")
    page = seen.page
    page.keyboard.press("/")
    page.keyboard.type("before")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?name=before*")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto(f"{page.url.split('?')[0]}")
    for name in ("before", "after"):
        page.locator(f"input[value='0/{name}']").focus()
        page.keyboard.press("Space")
    page.get_by_text("Compare selected").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?*")
    expect(page.locator("main")).to_contain_text(re.compile("less time|more time"))
    assert seen.wrong == []


def test_a_page_follows_its_job_and_keeps_what_is_open(look, store):
    seen = look("/jobs/before/insights")
    page = seen.page
    expect(page.locator("#state")).to_have_text("connected")
    page.locator("summary").first.click()
    page.evaluate("document.activeElement.blur()")
    folder = find(str(store), "before")
    status = folder.manifest()["status"]
    folder.update(status="Stopped")
    expect(page.locator("#main")).to_have_attribute("data-status", "Stopped")
    assert page.locator("details").first.evaluate("one => one.open")
    assert seen.wrong == []
    folder.update(status=status)


def test_a_browser_that_loses_the_server_says_so(browser, store):
    with serving(store) as server:
        context = browser.new_context()
        page = Looked(context, server).page
        page.goto(f"http://{server.own}/?token=secret-token")
        expect(page.locator("#state")).to_have_text("connected")
    expect(page.locator("#state")).to_contain_text("does not answer")
    assert page.locator("tbody tr").count() == 6, "what was there stays there"
    context.close()


def test_without_third_party_files_pages_are_pictures_and_say_what_to_run(browser, store, tmp_path):
    bare = tmp_path / "src"
    shutil.copytree(SOURCE, bare, ignore=shutil.ignore_patterns("vendor", "__pycache__"))
    with serving(store, source=bare) as server:
        context = browser.new_context()
        seen = Looked(context, server)
        page = seen.page
        page.goto(f"http://{server.own}/?token=secret-token")
        page.goto(f"http://{server.own}/jobs/before")
        expect(page.locator(".notice")).to_contain_text("python hatch_build.py")
        expect(page.locator("#state")).to_have_text("connected")
        assert page.locator("svg.chart").count() >= 8
        assert violations(page) == []
        assert seen.wrong == []
        context.close()
