"""The pages of kernels, Python code, data loaders and tensors in a real browser."""

from __future__ import annotations

import shutil

import pytest
from tests.cli.conftest import job, told
from tests.dashboard.canvases import ready
from tests.dashboard.conftest import fits, settled, until, violations
from tests.dashboard.made import HOSTILE, imported, stalled

from holter.store.job import find
from holter.store.writer import Writer
from holter.views.wording import natural

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright comes with the extra dev")
expect = playwright.expect
pytestmark = pytest.mark.slow
PAGES = [
    "/jobs/trace/profile",
    "/jobs/trace/profile?view=flame",
    "/jobs/small/profile",
    "/jobs/small/profile?view=flame&phase=data_loading",
    "/jobs/small/performance",
    "/jobs/small/training",
    "/jobs/empty/profile",
    "/jobs/empty/profile?view=flame",
    "/jobs/empty/performance",
    "/jobs/empty/training",
]


@pytest.fixture(scope="module")
def store(profiled, tmp_path_factory):
    imported(profiled, tmp_path_factory.mktemp("traces"))
    stalled(profiled, tmp_path_factory.mktemp("stalled"))
    told("before", str(profiled), ranks=2, cores=4, steps=100, samples=100)
    job("empty", str(profiled))
    return profiled


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_quiet_fit_their_window_and_for_everybody(look, path):
    seen = look(path)
    page = seen.page
    settled(page)
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []
    for width in (400, 2500):
        page.set_viewport_size({"width": width, "height": 900})
        fits(page, width)
    assert seen.wrong == []


@pytest.mark.parametrize("path", PAGES)
def test_pages_say_the_same_without_scripts(look, path):
    page = look(path, java_script_enabled=False).page
    text = page.inner_text("main")
    if "/empty/" in path:
        assert "holter run" in text or "holter profile" in text
    else:
        assert page.locator("main svg, main tbody tr").count() >= 1
    assert page.locator("h1").count() == 1


def test_kernels_are_filtered_and_sorted(look):
    seen = look("/jobs/trace/profile")
    page = seen.page
    assert "bf16" in page.inner_text("[data-key=kernels]")
    page.get_by_label("rank").select_option("1")
    page.get_by_label("sectors (k)").fill("1")
    page.get_by_role("button", name="Show").first.click()
    page.wait_for_url("**rank=1**")
    expect(page.locator("main")).to_contain_text("others")
    kernels = page.locator("[data-key=kernels]")
    kernels.get_by_role("button", name="launches").focus()
    page.keyboard.press("Enter")
    expect(kernels.locator("th[aria-sort=descending]")).to_contain_text("launches")
    assert seen.wrong == []


def test_any_range_gets_a_histogram_and_loses_it_again(look):
    seen = look("/jobs/trace/profile?view=operators")
    page = seen.page
    page.get_by_label("histogram of").fill("augment")
    page.get_by_role("button", name="Add").click()
    page.wait_for_url("**annotation=augment**")
    page.get_by_label("histogram of").fill(HOSTILE)
    page.get_by_role("button", name="Add").click()
    main = page.locator("main")
    expect(main).to_contain_text(f"Durations of {HOSTILE}")
    expect(main).to_contain_text("Durations of augment")
    page.get_by_role("link", name="remove the histogram of augment").click()
    expect(main).not_to_contain_text("Durations of augment")
    expect(main).to_contain_text(f"Durations of {HOSTILE}")
    assert seen.wrong == []


def test_a_flame_is_walked_zoomed_and_searched_by_keyboard(look):
    seen = look("/jobs/small/profile?view=flame")
    page = seen.page
    flame = page.locator("[data-island=flame] [role=application]")
    expect(flame).to_be_visible()
    whole = flame.locator("g").count()
    flame.focus()
    page.keyboard.press("ArrowDown")
    told = page.locator("[data-island=flame] .told")
    expect(told).to_contain_text("of all")
    first = told.inner_text()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    expect(told).not_to_have_text(first)
    page.keyboard.press("Enter")
    out = page.locator("[data-island=flame]").get_by_role("button", name="zoom out")
    expect(out).to_be_enabled()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(out).to_be_disabled()
    expect(flame.locator("g")).to_have_count(whole)
    page.get_by_label("search the flame graph").fill("train.py")
    expect(page.locator("[data-island=flame] .search .dim")).to_contain_text("bars")
    assert flame.locator("rect:not(.faint)").count() < whole
    assert seen.wrong == []


def test_functions_of_one_timer_are_searched_and_lead_to_callers(look):
    seen = look("/jobs/small/profile?view=flame")
    page = seen.page
    functions = page.locator("[data-key=total_time]")
    shown = functions.locator("tbody tr:visible")
    first = shown.count()
    functions.locator("input[type=search]").fill("backward")
    until(page, lambda: 0 < shown.count() < first)
    shown.locator("td a").first.click()
    expect(page.locator("main")).to_contain_text("Callers of")
    assert seen.wrong == []


def test_loading_says_what_the_verdict_says(look):
    text = look("/jobs/small/performance").page.inner_text("main")
    assert "decode_image" in text
    assert "Data loading takes" in text
    assert "Advice" in text
    assert "worker" in text


def test_tensors_are_chosen_without_leaving_the_page(look):
    seen = look("/jobs/small/training")
    page = seen.page
    page.get_by_label("add a tensor to the charts").fill("gradient/2.weight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="remove gradient/2.weight from the charts")).to_be_visible()
    chart = page.locator("[data-island=figure][data-figure=tensor_histories]")
    expect(chart).to_contain_text("gradient/2.weight")
    page.wait_for_url("**tensor=**")
    page.reload()
    expect(page.get_by_role("button", name="remove gradient/2.weight from the charts")).to_be_visible()
    page.get_by_role("button", name="remove gradient/2.weight from the charts").click()
    expect(chart).not_to_contain_text("gradient/2.weight")
    assert seen.wrong == []


def test_a_layer_map_tells_its_cells_to_the_keyboard(look):
    seen = look("/jobs/small/training?map=update_ratio&role=any")
    page = seen.page
    frame = page.locator("[data-island=layer-map] [role=application]")
    expect(frame).to_be_visible()
    frame.focus()
    told = page.locator("[data-island=layer-map] .told")
    expect(told).to_contain_text("step")
    first = told.inner_text()
    page.keyboard.press("ArrowRight")
    expect(told).not_to_have_text(first)
    page.keyboard.press("Enter")
    page.wait_for_url("**tensor=**")
    assert seen.wrong == []


def test_a_sorted_table_follows_its_job_and_stays_sorted(look, store):
    name = "gradient/9.weight"
    shutil.copytree(store / "small", store / "growing")
    seen = look("/jobs/growing/training")
    page = seen.page
    table = page.locator("[data-key=tensors]")
    table.get_by_role("button", name="tensor").click()
    expect(page.locator("#state")).to_contain_text("connected")
    writer = Writer(find(str(store), "growing"), "later")
    row = {"time": [10**18], "rank": [0], "step": [99], "mode": ["train"], "name": [name], "role": ["grad"]}
    writer.append("tensors", {**row, "count": [1], "mean": [1.0], "std": [0.0], "abs_mean": [1.0]})
    writer.close()
    expect(table).to_contain_text(name)
    names = table.locator("tbody tr td:first-child").all_inner_texts()
    assert names == sorted(names, key=natural)
    assert seen.wrong == []


def test_tables_that_come_while_a_page_is_open_are_seen_without_a_reload(look, store, tmp_path):
    kept = ("python_stacks", "python_calls", "python_functions")
    shutil.copytree(store / "small", store / "later", ignore=shutil.ignore_patterns(*kept))
    seen = look("/jobs/later/profile?view=flame")
    page = seen.page
    expect(page.locator("#state")).to_have_text("connected")
    expect(page.locator("[data-key=total_time]")).to_have_count(0)
    for name in kept:
        shutil.copytree(store / "small" / name, tmp_path / name)
        shutil.move(tmp_path / name, store / "later" / name)
    expect(page.locator("[data-key=total_time] tbody tr").first).to_be_visible()
    expect(page.locator("[data-key=segments] tbody tr").first).to_be_visible()
    assert seen.wrong == []


def test_a_slow_function_is_one_click_away_and_the_kernel_below_a_slow_step_three(look):
    seen = look("/")
    page = seen.page
    page.get_by_role("link", name="small", exact=True).click()
    expect(page.locator(".functions")).to_contain_text("decode_image")
    page.goto(page.url.partition("/jobs/")[0])
    page.get_by_role("link", name="stalled", exact=True).click()
    slow = page.locator(".slow-step")
    expect(slow).to_contain_text("took 30 ms")
    slow.get_by_role("link").click()
    canvas = ready(page)
    stream = page.locator(".timeline-labels-inside > *", has_text="stream 7").bounding_box()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, stream["y"] + 10)
    panel = page.locator(".timeline-panel")
    expect(panel.locator("h3")).to_contain_text("vectorized_elementwise_kernel")
    expect(panel).to_contain_text("21 ms")
    assert seen.wrong == []


def test_from_the_slowest_steps_the_kernel_is_two_clicks_away(look):
    seen = look("/jobs/stalled/performance")
    page = seen.page
    first = page.locator("[data-key=slow] tbody tr").first
    expect(first).to_contain_text("30 ms")
    first.get_by_role("link").first.click()
    canvas = ready(page)
    stream = page.locator(".timeline-labels-inside > *", has_text="stream 7").bounding_box()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, stream["y"] + 10)
    expect(page.locator(".timeline-panel h3")).to_contain_text("vectorized_elementwise_kernel")
    assert seen.wrong == []


def test_a_chart_is_saved_as_its_numbers_and_as_a_picture(look):
    page = look("/jobs/before").page
    chart = page.locator("[data-figure=step_times]")
    expect(chart).to_have_attribute("data-state", "ready")
    with page.expect_download() as saved:
        chart.get_by_role("button", name="save Step time as CSV").click()
    assert saved.value.suggested_filename == "step-time.csv"
    head, *rows = saved.value.path().read_text().splitlines()
    assert head.startswith("step,rank 0")
    assert len(rows) >= 100
    assert all(float(row.split(",")[1]) > 0 for row in rows)
    with page.expect_download() as saved:
        chart.get_by_role("button", name="save Step time as PNG").click()
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")


def test_charts_mark_windows_and_say_what_is_at_the_cursor(look, server):
    status, told = server.json("/api/v1/jobs/small/marks")
    assert status == 200
    page = look("/jobs/small").page
    chart = page.locator("[data-figure=step_times]")
    chart.scroll_into_view_if_needed()
    expect(chart).to_have_attribute("data-state", "ready")
    first = next(one["begin"] for one in told["marks"] if one["kind"] == "window")
    seconds = float(page.locator("#main").get_attribute("data-seconds"))
    box = chart.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * first / seconds, box["y"] + 40)
    expect(chart.locator(".chart-tip")).to_contain_text("profiled")


def test_the_curves_of_a_baseline_are_dashed_in_each_chart(look):
    seen = look("/jobs/stalled?baseline=0/trace")
    page = seen.page
    for name, own in (("step_times", "rank 0"),):
        island = page.locator(f"[data-figure={name}]")
        island.scroll_into_view_if_needed()
        expect(island).to_have_attribute("data-state", "ready")
        expect(island.locator(".legend i.dashed")).not_to_have_count(0)
        expect(island.locator(".legend")).to_contain_text(f"{own}, trace")
    assert seen.wrong == []


def test_on_a_phone_what_opens_beside_a_page_is_a_sheet_at_its_bottom(look):
    seen = look("/jobs/stalled/timeline?step=17", width=400, height=900)
    page = seen.page
    canvas = ready(page)
    stream = page.locator(".timeline-labels-inside > *", has_text="stream 7").bounding_box()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, stream["y"] + 10)
    sheet = page.locator(".timeline-panel")
    expect(sheet.locator("h3")).to_be_in_viewport()
    below = sheet.bounding_box()
    assert below["y"] + below["height"] == pytest.approx(900, abs=1)
    assert (below["x"], below["width"]) == (0, 400)
    assert violations(page) == []
    sheet.get_by_role("button", name="Close").click()
    expect(sheet.locator("h3")).to_have_count(0)
    page.locator("nav.pages").get_by_role("link", name="Configuration").click()
    drawer = page.locator("dialog.drawer")
    expect(drawer.locator("h1")).to_be_visible()
    below = drawer.bounding_box()
    assert (below["x"], below["width"]) == (0, 400)
    assert below["y"] > 50
    assert below["y"] + below["height"] == pytest.approx(900, abs=1)
    assert seen.wrong == []
