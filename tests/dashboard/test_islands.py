"""Living charts in a real browser: one window of time for all of them, kept in the address, followed live."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import SOURCE, told
from tests.dashboard.conftest import Looked, until, violations
from tests.dashboard.serving import BEARER, PATIENCE_S, serving
from tests.dashboard.serving import until as waited
from tests.dashboard.stories import judged
from tests.dashboard.third_party import fetched

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright comes with the extra dev")
expect = playwright.expect
pytestmark = [pytest.mark.slow, fetched]
UNITS = {"utilization": "%", "phases_over_time": "%", "step_times": "ms", "breakdown_over_steps": "ms"}
TRAINING = "import holter, time\nwhile True:\n    with holter.step():\n        time.sleep(0.05)\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("islands") / "store"
    judged(told("before", str(folder), ranks=2, cores=8, steps=100, samples=400)[0])
    return folder


def chart(page, name):
    """Return a chart once it lives, and shows what was asked for last."""
    island = page.locator(f"[data-figure={name}]")
    island.scroll_into_view_if_needed()
    expect(island).to_have_attribute("data-state", "ready")
    expect(island.locator(".u-over")).to_be_visible()
    return island


def brush(page, island, first=0.25, last=0.75):
    island.locator(".u-over").hover()  # values appear in a box beside the cursor
    box = island.locator(".u-over").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + first * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + last * box["width"], middle, steps=5)
    page.mouse.up()


def window(page):
    found = re.search(r"[?&]from=([\d.]+)&to=([\d.]+)", page.url)
    return None if found is None else (float(found[1]), float(found[2]))


def test_every_picture_of_lines_becomes_a_chart_that_tells_values(look):
    for path, names in (
        ("/jobs/before", ("utilization", "step_times")),
        ("/jobs/before/performance", ("breakdown_over_steps", "phases_over_time", "step_histogram")),
    ):
        seen = look(path)
        for name in names:
            island = chart(seen.page, name)
            assert island.locator("svg.chart").count() == 0
            island.locator(".u-over").hover()
            expect(island.locator(".chart-tip b").first).to_have_text(
                re.compile(rf"\d.*{UNITS.get(name, '')}$")
            )
        assert seen.wrong == []


def test_dragging_sets_the_window_of_all_charts_and_going_back_works(look):
    asked = []
    seen = look("/jobs/before")
    page = seen.page
    page.on("request", lambda one: asked.append(one.url) if "/figures?" in one.url else None)
    chart(page, "step_times")
    brush(page, chart(page, "utilization"))
    page.wait_for_url("**from=**")
    first, last = window(page)
    whole = float(page.locator("#main").get_attribute("data-seconds"))
    assert (first, last) == pytest.approx((0.25 * whole, 0.75 * whole), rel=0.03)
    expect(page.locator(".window")).to_contain_text("min")
    shown = page.locator(".window").inner_text()
    until(page, lambda: any(f"from={first}" in url and "utilization" in url for url in asked))
    # The other charts follow as they are looked at; a second drag looks closer still.
    brush(page, chart(page, "utilization"), 0.4, 0.6)
    until(page, lambda: window(page)[0] != first)
    assert window(page)[1] - window(page)[0] == pytest.approx((last - first) / 5, rel=0.1)
    page.go_back()
    until(page, lambda: window(page) == (first, last))
    expect(page.get_by_role("button", name="show the whole job")).to_be_visible()
    expect(page.locator(".window")).to_have_text(shown)
    chart(page, "utilization").locator(".u-over").dblclick()
    until(page, lambda: window(page) is None)
    assert seen.wrong == []


def test_an_address_brings_back_what_was_seen(look):
    seen = look("/jobs/before?store=0&from=40&to=60&axis=step")
    page = seen.page
    island = chart(page, "utilization")
    expect(page.locator(".window")).to_have_text(re.compile(r"^40\.0 s . 1:00 min$"))
    expect(page.locator("#commands [aria-pressed=true]")).to_have_text("Step")
    island.locator(".u-over").hover()
    expect(island.locator(".chart-tip .at").first).to_have_text(re.compile(r"step 1,0\d\d"))
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile(r"\?store=0&axis=step$"))
    page.locator("a[data-page=system]").click()
    page.wait_for_url("**/system?store=0&axis=step")
    assert seen.wrong == []


def test_all_is_done_by_keyboard(look):
    seen = look("/jobs/before")
    page = seen.page
    chart(page, "utilization")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_contain_text("zoom in")
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("w")
    page.wait_for_url("**from=**")
    first = window(page)
    page.keyboard.press("d")
    until(page, lambda: window(page)[0] > first[0])
    page.keyboard.press("0")
    until(page, lambda: window(page) is None)
    page.keyboard.press("x")
    page.wait_for_url("**axis=step**")
    plot = page.locator("[data-figure=utilization] .plot")
    plot.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-figure=utilization] .chart-tip .at").first).to_have_text(re.compile("step"))
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**/system**")
    expect(page.locator("html"), "the theme stays").to_have_attribute("data-theme", "dark")
    assert seen.wrong == []


def test_marked_cores_are_drawn_at_once(look):
    seen = look("/jobs/before/system")
    page = seen.page
    island = chart(page, "cores")
    expect(island.locator(".legend li")).to_have_count(1)  # the mean
    page.get_by_label("cpu3", exact=True).check()
    expect(island.locator(".legend")).to_contain_text("cpu3")
    page.wait_for_url("**cores=cpu3**")
    page.reload()
    expect(chart(page, "cores").locator(".legend")).to_contain_text("cpu3")
    assert seen.wrong == []


def test_a_rule_is_muted_in_this_browser_only(look):
    seen = look("/jobs/before/findings")
    page = seen.page
    page.keyboard.press("j")
    rule = page.locator("article.fired").first
    expect(rule).to_be_focused()
    rule.get_by_role("button", name=re.compile("mute", re.I)).click()
    expect(rule.locator(".inside")).to_be_hidden()
    page.reload()
    expect(page.locator("article.fired").first.locator(".inside")).to_be_hidden()
    other = look("/jobs/before/findings").page
    expect(other.locator("article.fired").first.locator(".inside")).to_be_visible()
    other.get_by_role("link", name="show the worst moment").first.click()
    other.wait_for_url("**/performance?**from=**")
    assert seen.wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_living_charts_are_fit_for_everybody_and_print(look, scheme):
    seen = look("/jobs/before", scheme=scheme, height=4000)
    chart(seen.page, "step_times")
    assert violations(seen.page) == []
    assert len(seen.page.pdf()) > 20_000


def test_a_running_job_is_followed_and_told_what_to_do(browser, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "HOLTER_STORE": str(tmp_path / "store")}
    command = [sys.executable, "-m", "holter", "run", "--job", "live", "--", sys.executable, str(script)]
    run = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        waited((tmp_path / "store/live/samples").exists)
        with serving(tmp_path / "store") as server:
            context = browser.new_context(viewport={"width": 1200, "height": 900})
            page = Looked(context, server).page
            page.goto(f"http://{server.own}/?token=secret-token")
            page.goto(f"http://{server.own}/jobs/live")
            chart(page, "utilization")
            chart(page, "step_times")  # from now on the page has all its parts
            chart(page, "utilization")
            # What a reader did with a chart survives its being drawn anew.
            page.locator("[data-figure=utilization] .legend button").first.click()
            page.locator("input[name=total_steps]").focus()
            page.keyboard.type("12")
            page.evaluate("scrollTo(0, 600)")
            seconds = float(page.locator("#main").get_attribute("data-seconds"))
            until(page, lambda: float(page.locator("#main").get_attribute("data-seconds")) > seconds + 3)
            expect(page.locator("#state")).to_have_text(re.compile("last sample (just now|[1-4] s ago)"))
            expect(page.locator("input[name=total_steps]")).to_be_focused()
            assert page.locator("input[name=total_steps]").input_value() == "12"
            assert page.evaluate("scrollY") > 0, "it is not thrown back to its top"
            shown = page.locator("[data-figure=utilization] .legend button").first
            expect(shown).to_have_attribute("aria-pressed", "false")
            # Beside another job it is followed too: what is told, and the charts of both.
            told("before", str(tmp_path / "store"), ranks=1, cores=1, steps=50, samples=50)
            asked = []
            page.on("request", lambda one: asked.append(one.url) if "compare/figures" in one.url else None)
            page.goto(f"http://{server.own}/compare?job=0/live&job=0/before")
            expect(chart(page, "step_times").locator(".legend")).to_contain_text("live")
            expect(page.locator("#state")).to_have_text(re.compile("last sample"))
            once = len(asked)
            until(page, lambda: len(asked) > once + 1)
            expect(page.locator("table")).to_contain_text("whole job")
            page.goto(f"http://{server.own}/jobs/live/controls")
            page.locator("select[name=interval_ms]").select_option("1000")
            page.get_by_role("button", name="Set", exact=True).click()
            expect(page.locator("form[data-order=configure] output")).to_contain_text("sent; the agent")
            page.get_by_role("button", name="Stop the training").click()
            page.get_by_role("button", name="Cancel").click()
            assert run.poll() is None
            page.get_by_role("button", name="Stop the training").click()
            page.get_by_role("button", name="Yes").click()
            run.wait(PATIENCE_S)
            expect(page.locator("#main")).to_contain_text("live controls are off")
            status = lambda: json.loads(server.ask("/api/v1/jobs/live", **BEARER)[1])["job"]["status"]  # noqa: E731
            until(page, lambda: status() == "Stopped")
            context.close()
        manifest = json.loads((tmp_path / "store/live/job.json").read_text())
        assert manifest["interval_ms"] == 1000
    finally:
        run.kill()
        run.wait(PATIENCE_S)
