"""The shell of the pages: old addresses, steps, a baseline; in a real browser drawer, commands and strip."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import job, told
from tests.dashboard.conftest import settled, until, violations
from tests.dashboard.serving import BEARER
from tests.dashboard.stories import judged

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright comes with the extra dev")
expect = playwright.expect
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("shell") / "store"
    for name in ("before", "after"):
        judged(told(name, str(folder), ranks=2, cores=4, steps=60, samples=100)[0])
    job("failed", str(folder), status="Failed", exit_code=1)
    return folder


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nodes?from=1&to=2", "system?from=1&to=2"),
        ("insights", "findings"),
        ("settings?store=0", "controls?store=0"),
        ("data-loading", "performance"),
        ("python?phase=forward", "profile?phase=forward&view=flame"),
        ("profiler", "profile"),
        ("tensors", "training"),
    ],
)
def test_old_addresses_lead_to_the_new_pages(server, old, new):
    status, _, headers = server.get(f"/jobs/before/{old}")
    assert (status, headers["location"]) == (307, f"/jobs/before/{new}")
    assert server.get(headers["location"])[0] == 200


def test_an_address_of_a_step_shows_that_step_or_says_which_there_are(server):
    steps = server.json("/api/v1/jobs/before/clock?width=4000")[1]
    status, _, headers = server.ask("/jobs/before/timeline?store=0&step=1030&rank=1", **BEARER)
    assert status == 307
    window = dict(part.split("=") for part in headers["location"].partition("?")[2].split("&"))
    begin = steps["time"][steps["step"].index(1030)]
    assert float(window["from"]) < begin + 0.2
    assert begin < float(window["to"]) < begin + 3
    status, text, _ = server.get("/jobs/before/timeline?step=5")
    assert status == 404
    assert "recorded steps: 1,000 to 1,059" in text
    assert server.get("/jobs/before/timeline?step=x")[0] == 400


def test_numbers_say_how_they_differ_from_a_baseline(server):
    page = server.get("/jobs/after?baseline=before")[1]
    assert "less, better" in page
    assert "baseline 1 s" in page
    assert "baseline=before" in page.partition("<main")[0], "the other pages keep it"
    assert "baseline" not in server.get("/jobs/after")[1].partition("<main")[2]
    assert server.get("/jobs/after?baseline=nothing")[0] == 404


def test_tabs_without_data_say_how_to_get_it(server):
    head = server.get("/jobs/failed")[1].partition("<main")[0]
    assert head.count('class="dimmed"') >= 4
    assert "with holter.step()" in head
    assert "dimmed" not in server.get("/jobs/before/performance")[1].partition("System")[0]


def test_a_drawer_opens_by_a_click_and_by_an_address_and_is_left_by_a_key(look):
    seen = look("/jobs/before")
    page = seen.page
    settled(page)
    page.locator("nav.pages a[data-drawer=findings]").click()
    drawer = page.locator("dialog.drawer")
    expect(drawer.locator("article.rule").first).to_be_visible()
    assert page.evaluate("location.hash") == "#findings"
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.matches('dialog article.fired')")
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    assert page.evaluate("location.hash") == ""
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(drawer).to_contain_text("torchrun --nproc-per-node")
    expect(drawer).to_contain_text("Not recorded")
    page.go_back()
    expect(drawer).to_be_hidden()
    page.goto(page.url.partition("#")[0] + "#controls")
    expect(drawer).to_contain_text("Download the report")
    assert seen.wrong == []


def test_commands_find_pages_jobs_and_steps(look):
    seen = look("/jobs/before")
    page = seen.page
    settled(page)
    page.keyboard.press("Control+k")
    palette = page.locator("dialog.palette")
    expect(palette.locator("li").first).to_be_visible()
    assert violations(page) == []
    page.keyboard.type("syst")
    expect(palette.locator("li").first).to_contain_text("System")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/before/system?*")
    settled(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("after")
    expect(palette.locator("li").first).to_contain_text("after")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/after/system?*")
    page.keyboard.press("Control+k")
    page.keyboard.type("step 1030")
    expect(palette.locator("li").first).to_contain_text("step 1030")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/after/timeline?*from=*")
    expect(page.locator(".window")).to_contain_text(" – ")  # noqa: RUF001 - as the page writes it
    assert seen.wrong == []


def test_a_drag_on_the_strip_chooses_the_window_of_the_page(look):
    seen = look("/jobs/before/performance")
    page = seen.page
    settled(page)
    strip = page.locator(".strip-of-job")
    expect(strip.locator("path").first).to_be_visible()
    box = strip.bounding_box()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 8, steps=3)
    page.mouse.up()
    until(page, lambda: "from=" in page.evaluate("location.search"))
    expect(page.locator(".whole").first).to_be_visible()
    strip.dblclick()
    expect(page.locator(".window")).to_have_text("whole job")
    expect(page.locator(".whole").first).to_be_hidden()
    assert seen.wrong == []


def test_the_slow_function_is_one_click_from_the_list(look):
    seen = look("/")
    page = seen.page
    page.get_by_role("link", name="before", exact=True).click()
    expect(page.locator(".functions")).to_contain_text("read_row_group")
    assert seen.wrong == []
