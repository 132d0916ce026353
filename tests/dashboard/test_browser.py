"""The pages in a real browser: light and dark, narrow and wide, by keyboard, live, and fit for everybody."""

from __future__ import annotations

import json
import os
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
LAYOUT = Path(__file__).with_name("overview_layout.json")
"""Where the parts of the Overview lie; `RENEW=1 pytest -k overview_is_laid_out` writes it anew."""
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
PAGES = [
    "/",
    "/jobs/before",
    "/jobs/before/system?cores=cpu1",
    "/jobs/before/findings",
    "/jobs/before?from=20&to=60&axis=step",
    "/jobs/empty",
    "/jobs/empty/system",
    "/jobs/empty/findings",
    "/jobs/sick",
    "/jobs/sick/findings",
    "/jobs/running/controls",
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
        "/jobs/before/system",
        "/jobs/before/findings",
        "/jobs/sick",
        "/jobs/running/controls",
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
    seen = look("/jobs/before/findings")
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
        page.goto(f"http://{server.own}/jobs/before/performance")
        expect(page.locator(".notice")).to_contain_text("python hatch_build.py")
        expect(page.locator("#state")).to_have_text("connected")
        assert page.locator("svg.chart").count() >= 8
        assert violations(page) == []
        assert seen.wrong == []
        context.close()


def parts(page) -> list[list]:
    """Return name, left edge, top, width, height (CSS pixels) and background of each part of the Overview."""
    return page.evaluate(
        """() => [...document.querySelectorAll(
            "header .head, header .tabs, .strip-of-job, .hero, .tile, main .card, .ledger, .u-over"
        )].map((one) => {
            const box = one.getBoundingClientRect();
            const name = one.querySelector("h2, h3, .label")?.textContent ?? "";
            const [left, top, width, height] =
                [box.left, box.top + scrollY, box.width, box.height].map(Math.round);
            return [`${one.className.split(" ")[0]} ${name}`.trim(), left, top, width, height,
                    getComputedStyle(one).backgroundColor];
        })"""
    )


def test_the_overview_is_laid_out_as_it_was(look):
    """Compares boxes and colors instead of pixels, because each machine has other fonts."""
    found = {}
    for width in (1440, 400):
        seen = look("/jobs/before", width=width)
        settled(seen.page)
        found[f"{width} light"] = parts(seen.page)
        seen.page.emulate_media(color_scheme="dark")
        found[f"{width} dark"] = parts(seen.page)
    if os.environ.get("RENEW"):
        rows = (f'"{name}": [\n' + ",\n".join(map(json.dumps, all_)) + "]" for name, all_ in found.items())
        LAYOUT.write_text("{" + ",\n".join(rows) + "}\n")
    for name, wanted in json.loads(LAYOUT.read_text()).items():
        here = found[name]
        assert [one[0] for one in here] == [one[0] for one in wanted], name
        for (part, *box, color), (_, *like, paint) in zip(here, wanted, strict=True):
            left, top, width, height = (abs(a - b) for a, b in zip(box, like, strict=True))
            # Other fonts wrap text elsewhere: heights and what lies below follow.
            assert max(left, width) <= 0.02 * int(name.split()[0]), (name, part, box, like)
            assert height <= 24 + 0.35 * like[3], (name, part, box, like)
            assert top <= 40 + 0.25 * like[1], (name, part, box, like)
            assert color == paint, (name, part)
