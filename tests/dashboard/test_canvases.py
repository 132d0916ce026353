"""Heat map and timeline in a real browser: light and dark, wide and narrow, whatever names say."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.dashboard.canvases import colors, expect, made, ready, until
from tests.dashboard.conftest import fits, violations
from tests.dashboard.conftest import until as waited

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    return made(tmp_path_factory.mktemp("seen") / "store")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/jobs/trace/timeline", "/jobs/before/timeline", "/jobs/before/system"])
def test_canvases_are_quiet_and_fit_for_everybody(look, path, scheme):
    seen = look(path, scheme=scheme)
    island = "heatmap" if path.endswith("system") else "timeline"
    ready(seen.page, island)
    waited(seen.page, lambda: colors(seen.page, island) > 20)
    assert violations(seen.page) == []
    assert seen.wrong == []


@pytest.mark.parametrize("width", [400, 2500])
@pytest.mark.parametrize("path", ["/jobs/trace/timeline", "/jobs/before/system"])
def test_canvases_are_not_wider_than_the_window(look, path, width):
    page = look(path, width=width).page
    ready(page, "heatmap" if path.endswith("system") else "timeline")
    fits(page, width)


@pytest.mark.parametrize("path", ["/jobs/hostile/timeline", "/jobs/hostile/system"])
def test_names_are_shown_and_never_executed(look, path):
    seen = look(path)
    page = seen.page
    island = "heatmap" if path.endswith("system") else "timeline"
    canvas = ready(page, island)
    canvas.focus()
    page.keyboard.press("ArrowDown")
    if island == "timeline":
        expect(page.locator(".timeline-panel")).to_contain_text("<script>alert(2)</script>")
        expect(page.locator(".timeline-panel")).to_contain_text("onerror")
    else:
        expect(page.locator(".tip")).to_contain_text("<script>alert(2)</script>")
    assert page.locator("main img, main script").count() == 0
    assert seen.wrong == []
    assert violations(page) == []


def test_the_heat_map_is_read_and_brushed_by_hand_and_keys(look):
    seen = look("/jobs/before/system")
    page = seen.page
    canvas = ready(page, "heatmap")
    canvas.scroll_into_view_if_needed()
    canvas.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".tip")).to_contain_text("gpu1")
    expect(page.locator(".tip")).to_contain_text("%")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 20, steps=4)
    page.mouse.up()
    chosen = until(page, lambda seen: seen is not None)
    canvas.focus()
    page.keyboard.press("+")
    near = until(page, lambda seen: seen != chosen)
    assert near[1] - near[0] < chosen[1] - chosen[0]
    page.get_by_text("Show as table").click()
    expect(page.locator("[data-island=heatmap] tbody tr")).to_have_count(6)
    page.keyboard.press("Tab")
    canvas.focus()
    page.keyboard.press("Escape")
    until(page, lambda seen: seen is None)
    assert seen.wrong == []
