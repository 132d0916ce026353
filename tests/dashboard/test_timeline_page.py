"""The timeline in a real browser: moved, searched, measured and explained, by hand and by keys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.dashboard.canvases import START, expect, made, ready, until, window
from tests.dashboard.conftest import Looked, violations
from tests.dashboard.conftest import until as waited
from tests.dashboard.serving import serving

from holter.importers.importing import import_job
from holter.store.job import at, create
from holter.store.writer import Writer

pytestmark = pytest.mark.slow
REAL = "kineto/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    return made(tmp_path_factory.mktemp("seen") / "store")


def test_a_job_without_events_teaches_how_to_get_some(look):
    seen = look("/jobs/empty/timeline")
    text = seen.page.inner_text("main")
    assert "holter profile" in text
    assert "holter import" in text
    assert violations(seen.page) == []
    assert seen.wrong == []


def test_without_scripts_the_whole_is_a_picture(look):
    page = look("/jobs/trace/timeline", java_script_enabled=False).page
    assert page.locator("svg.chart image").count() >= 1
    page.locator("summary").click()
    assert "thread 4101" in page.inner_text("table")


def test_a_timeline_is_moved_by_keys(look):
    seen = look("/jobs/trace/timeline")
    page = seen.page
    canvas = ready(page)
    canvas.focus()
    assert window(page) is None
    for _ in range(6):
        page.keyboard.press("w")
    ready(page)
    near = until(page, lambda seen: seen is not None)
    page.keyboard.press("d")
    ready(page)
    moved = until(page, lambda seen: seen != near)
    assert moved[0] > near[0]
    assert moved[1] - moved[0] == pytest.approx(near[1] - near[0], rel=1e-3)
    page.keyboard.press("s")
    ready(page)
    wide = until(page, lambda seen: seen != moved)
    assert wide[1] - wide[0] > moved[1] - moved[0]
    page.keyboard.press("0")
    until(page, lambda seen: seen is None)
    assert seen.wrong == []


def test_an_event_is_chosen_read_and_followed_by_keys(look):
    seen = look("/jobs/trace/timeline?from=0&to=0.16")
    page = seen.page
    panel = page.locator(".timeline-panel")
    ready(page).focus()
    page.keyboard.press(".")
    expect(panel).to_contain_text("takes")
    first = panel.inner_text()
    page.keyboard.press("ArrowDown")
    expect(panel).not_to_have_text(first)
    page.keyboard.press("f")
    until(page, lambda seen: seen[1] != 0.16)
    page.keyboard.press("Escape")
    expect(panel).to_contain_text("Select an event")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_contain_text("zoom to the selection")
    page.keyboard.press("Escape")
    assert seen.wrong == []


def test_search_finds_the_next_and_the_previous_and_what_launched_it(look):
    seen = look("/jobs/trace/timeline")
    page = seen.page
    panel = page.locator(".timeline-panel")
    ready(page).focus()
    page.keyboard.press("/")
    page.keyboard.type("sgemm_32x")
    page.keyboard.press("Enter")
    expect(page.locator(".timeline-finder output")).to_contain_text("events, 1 name")
    expect(panel.locator("h3")).to_have_text("ampere_sgemm_32x128_tn")
    began = panel.locator("dd").nth(1)
    first = began.inner_text()
    page.keyboard.press("Enter")
    expect(began).not_to_have_text(first)
    page.get_by_label("previous (N)").click()
    expect(began).to_have_text(first)
    expect(panel).to_contain_text("was launched by: cudaLaunchKernel")
    panel.get_by_role("button", name="was launched by").click()
    expect(panel.locator("h3")).to_have_text("cudaLaunchKernel")
    expect(panel).to_contain_text("launched: ampere_sgemm_32x128_tn")
    assert seen.wrong == []


def test_search_keeps_to_the_chosen_rank_and_says_so(look):
    page = look("/jobs/before/timeline?rank=1").page
    ready(page)
    page.locator(".timeline-finder input").fill("forward")
    page.keyboard.press("Enter")
    expect(page.locator(".timeline-finder output")).to_contain_text("1 name in rank 1")
    expect(page.locator(".timeline-panel")).to_contain_text("rank 1")


def test_a_hand_zooms_drags_clicks_and_measures(look):
    seen = look("/jobs/trace/timeline?from=0&to=0.5")
    page = seen.page
    canvas = ready(page)
    box = canvas.bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + 150)
    page.mouse.move(*middle)
    page.mouse.wheel(0, -400)
    ready(page)
    near = until(page, lambda seen: seen[1] != 0.5)
    assert near[1] - near[0] < 0.4
    page.mouse.down()
    page.mouse.move(middle[0] - 200, middle[1], steps=5)
    page.mouse.up()
    assert until(page, lambda seen: seen != near)[0] > near[0]
    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move(middle[0] + 50, middle[1], steps=5)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page.locator(".timeline-panel h3")).to_contain_text("selected")
    listed = page.locator(".timeline-area tbody tr")
    expect(listed.first).to_be_visible()
    expect(listed.first.locator("td").nth(4)).to_contain_text("%")
    page.get_by_role("button", name="Zoom to it").click()
    until(page, lambda seen: seen[1] - seen[0] < (near[1] - near[0]) / 2)
    assert seen.wrong == []


def test_a_track_is_pinned_to_the_top_and_back(look):
    seen = look("/jobs/trace/timeline")
    page = seen.page
    ready(page).focus()
    first = page.locator(".timeline-label").first
    expect(first).not_to_contain_text("★")
    page.keyboard.press(".")
    expect(page.get_by_role("button", name="Pin its track")).to_be_visible()
    page.keyboard.press("p")
    expect(first).to_contain_text("★")
    expect(first).to_contain_text("rank")
    assert violations(page) == []
    page.keyboard.press("p")
    expect(first).not_to_contain_text("★")
    assert seen.wrong == []


def test_tracks_are_opened_closed_and_filtered(look):
    seen = look("/jobs/trace/timeline")
    page = seen.page
    ready(page)
    rank = page.get_by_role("button", name="rank 0: python")
    expect(rank).to_have_attribute("aria-expanded", "true")
    labels = page.locator(".timeline-label")
    many = labels.count()
    rank.focus()
    page.keyboard.press("Enter")
    expect(rank).to_have_attribute("aria-expanded", "false")
    waited(page, lambda: labels.count() < many)
    page.get_by_label("part of a track's name").fill("nccl")
    expect(page.get_by_text("stream 20 nccl")).to_have_count(2)
    expect(page.get_by_text("pt_autograd_0")).to_have_count(0)
    page.get_by_label("part of a track's name").fill("")
    page.get_by_role("button", name="Close all").click()
    expect(page.get_by_text("pt_autograd_0")).to_have_count(0)
    assert seen.wrong == []


def test_a_recorded_job_shows_steps_phases_and_the_machine(look):
    page = look("/jobs/before/timeline").page
    ready(page)
    expect(page.get_by_text("cpu.util")).to_be_visible()
    expect(page.get_by_text("phases").first).to_be_visible()
    page.locator("[data-island=timeline] canvas").focus()
    page.keyboard.press("/")
    page.keyboard.type("backward")
    page.keyboard.press("Enter")
    expect(page.locator(".timeline-panel h3")).to_contain_text("backward")


def test_a_real_trace_is_searched_and_explained(browser, tmp_path):
    path = Path(os.environ.get("HOLTER_DATA", "../shared/data")) / "traces" / REAL
    if not path.exists():
        pytest.skip(f"{path} is not here; HOLTER_DATA names the folder of real traces")
    import_job([path], str(tmp_path / "store"), "real", now_ns=START)
    with serving(tmp_path / "store") as server:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        seen = Looked(context, server)
        page = seen.page
        page.goto(f"http://{server.own}/?token=secret-token")
        page.goto(f"http://{server.own}/jobs/real/timeline")
        ready(page).focus()
        page.keyboard.press("/")
        page.keyboard.type("conv")
        page.keyboard.press("Enter")
        expect(page.locator(".timeline-panel h3")).to_contain_text("onv")
        expect(page.locator(".timeline-panel")).to_contain_text("kind")
        assert violations(page) == []
        assert seen.wrong == []
        context.close()


def test_a_timeline_grows_with_its_job(look, store):
    def more(thread):
        writer = Writer(at(str(store / "grows")), "n0")
        events = {"time": [START + thread * 10**9], "duration": [10**8], "rank": [0], "thread": [thread]}
        writer.append("operators", {**events, "name": ["work"], "kind": ["operator"]})
        writer.close()

    folder = create(str(store), "grows", command=[], interval_ms=1000, rules=[], now_ns=START)
    folder.update(start=START, status="InProgress")
    more(1)
    seen = look("/jobs/grows/timeline")
    page = seen.page
    ready(page)
    expect(page.get_by_text("thread 1")).to_be_visible()
    more(2)
    expect(page.get_by_text("thread 2")).to_be_visible()
    assert seen.wrong == []


def test_an_event_at_second_0_is_drawn_and_chosen_by_hand_and_by_keys(browser, tmp_path):
    made = create(str(tmp_path), "zero", command=["train"], interval_ms=1000, rules=[], now_ns=START)
    made.update(start=START, end=START + 10**9, status="Completed")
    writer = Writer(made, "node")
    begins = [START, START + 6 * 10**8]
    columns = {"time": begins, "duration": [2 * 10**8] * 2, "rank": [0] * 2, "thread": [1] * 2}
    writer.append("operators", {**columns, "kind": ["operator"] * 2, "name": ["first_op", "other_op"]})
    writer.close()
    with serving(tmp_path) as server:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = Looked(context, server).page
        page.goto(f"http://{server.own}/?token=secret-token")
        for asked in ("", "?from=0&to=0.5"):
            page.goto(f"http://{server.own}/jobs/zero/timeline{asked}")
            canvas, name = ready(page), page.locator(".timeline-panel h3")
            canvas.focus()
            page.keyboard.press(".")
            expect(name).to_have_text("first_op")
            page.keyboard.press("Escape")
            expect(name).to_have_count(0)
            # The lines below the ruler, from the first pixel of the job on.
            assert any(chosen(page, canvas, 1, y) == "first_op" for y in range(45, 200, 6))
        context.close()


def chosen(page, canvas, x, y):
    """Click into a canvas; return the name of the event that is selected then."""
    canvas.click(position={"x": x, "y": y})
    name = page.locator(".timeline-panel h3")
    return name.inner_text() if name.count() else None
