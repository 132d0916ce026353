"""The report in a real browser, from a file: live with scripts, readable without; nothing is asked for."""

from __future__ import annotations

import pytest
from tests.cli.conftest import told
from tests.dashboard.conftest import Looked, violations
from tests.dashboard.stories import judged

from holter.pages.assets import complete
from holter.pages.file import page as report
from holter.store.trial import Trial
from holter.views.reading import Reading

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright comes with the extra dev")
expect = playwright.expect
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not complete(), reason="no third-party files here: `python hatch_build.py`"),
]
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    job = judged(told("before", str(folder / "store"), ranks=2, cores=8, steps=100, samples=300)[0])
    rule = {"rule": "r", "name": HOSTILE, "status": "IssuesFound", "parameters": {}}
    issue = {"summary": HOSTILE, "severity": "critical", "evidence": {HOSTILE: HOSTILE}, "advice": HOSTILE}
    job.write_evaluations({"rules": [{**rule, "issues": [issue]}]})
    job.update(command=["python", HOSTILE])
    (folder / "report.html").write_text(report(Reading(Trial(job))), encoding="utf-8")
    return folder / "report.html"


@pytest.fixture
def look(browser, file):
    contexts = []

    def open_file(**more):
        context = browser.new_context(viewport={"width": 1200, "height": 900}, **more)
        contexts.append(context)
        seen = Looked(context, None)
        seen.page.goto(file.as_uri())
        return seen

    yield open_file
    for context in contexts:
        context.close()


def test_charts_live_and_a_drag_changes_all_of_them(look):
    seen = look()
    page = seen.page
    page.click("a[data-page=system]")
    chart = page.locator("#system [data-figure=cores]")
    expect(chart.locator(".u-over")).to_be_visible()
    expect(chart).to_have_attribute("data-state", "ready")
    before = chart.evaluate("chart => chart.querySelector('canvas').toDataURL()")
    other = page.locator("#system [data-figure=memory]")
    other.scroll_into_view_if_needed()
    expect(other).to_have_attribute("data-state", "ready")
    expect(page.locator("#system [data-state=loading]")).to_have_count(0)
    box = other.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 40, steps=4)
    page.mouse.up()
    expect(page.locator(".window")).to_contain_text(" min")
    assert "from=" in page.evaluate("location.hash")
    expect(page.locator("#state")).to_contain_text("Charts over time show this window")
    chart.scroll_into_view_if_needed()
    expect(chart.locator(".u-over")).to_be_visible()
    changed = "([chart, before]) => chart.querySelector('canvas')?.toDataURL() !== before"
    page.wait_for_function(changed, arg=[chart.element_handle(), before])
    page.keyboard.press("0")
    expect(page.locator(".window")).to_have_text("whole job")
    assert seen.wrong == []


def test_devices_are_chosen(look):
    seen = look()
    page = seen.page
    page.click("a[data-page=system]")
    for group, figures, marked in (("cores", ["cores"], "cpu5"), ("gpus", ["gpus", "gpu_memory"], "gpu1")):
        page.locator(f"#system [data-island=chips] input[value={marked}]").check()
        for figure in figures:
            chart = page.locator(f"#system [data-figure={figure}]")
            chart.scroll_into_view_if_needed()
            expect(chart.locator(".legend")).to_contain_text(marked)
            expect(chart.locator(".legend button")).to_have_count(2)
        page.locator(f"#system [data-island=chips][data-group={group}] input[value={marked}]").uncheck()
        expect(page.locator(f"#system [data-figure={figures[0]}]")).not_to_contain_text(marked)
    assert seen.wrong == []


def test_pages_are_turned_by_links_and_by_the_back_button(look):
    seen = look()
    page = seen.page
    expect(page.locator("#overview")).to_be_visible()
    expect(page.locator("#system")).to_be_hidden()
    page.click("a[data-page=system]")
    expect(page.locator("#system")).to_be_visible()
    expect(page.locator("#overview")).to_be_hidden()
    expect(page.locator("#system canvas.surface")).to_be_visible()
    page.go_back()
    expect(page.locator("#overview")).to_be_visible()
    expect(page.locator(".strip-of-job path").first).to_be_visible()
    page.click("a[data-page=performance]")
    chart = page.locator("#performance [data-figure=breakdown_over_steps]")
    chart.scroll_into_view_if_needed()
    button = chart.locator(".legend button").first
    assert violations(page) == []
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    page.click("a[data-page=report]")
    assert HOSTILE in page.inner_text("#report")
    assert seen.wrong == []


def test_the_timeline_is_looked_at_closely(look):
    seen = look()
    page = seen.page
    page.click("a[data-page=timeline]")
    island = page.locator("#timeline [data-island=timeline]")
    expect(island).to_have_attribute("data-state", "ready")
    expect(page.locator(".timeline-label").first).to_be_visible()
    canvas = page.locator("#timeline canvas.surface")
    picture = "canvas => canvas.toDataURL()"
    before = canvas.evaluate(picture)
    canvas.focus()
    for _ in range(5):
        page.keyboard.press("w")
    expect(page.locator(".window")).to_contain_text(" – ")  # noqa: RUF001 - as the page writes it
    page.wait_for_function("([one, was]) => one.toDataURL() !== was", arg=[canvas.element_handle(), before])
    assert page.locator("#timeline p.note[role=status]").inner_text() == ""
    page.keyboard.press(".")
    expect(page.locator(".timeline-panel h3")).to_be_visible()
    assert seen.wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_without_scripts_all_pages_can_be_read_and_printed(look, scheme):
    seen = look(java_script_enabled=False, color_scheme=scheme)
    page = seen.page
    assert page.locator("section.sheet:visible").count() >= 6
    assert page.locator("svg.chart:visible").count() >= 12
    assert page.locator("svg.chart").first.bounding_box()["width"] > 300
    assert HOSTILE in page.inner_text("#report")
    assert page.locator("input[type=checkbox]:visible").count() == 0
    assert len(page.pdf()) > 20_000
    assert seen.wrong == []


def test_print_has_all_pages(look):
    seen = look()
    seen.page.emulate_media(media="print")
    assert seen.page.locator("section.sheet:visible").count() >= 6
    assert not seen.page.locator("body > header").is_visible()
    assert len(seen.page.pdf()) > 20_000
    assert seen.wrong == []
