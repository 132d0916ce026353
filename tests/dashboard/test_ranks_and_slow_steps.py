"""One rank on all pages, and the slowest steps: what they consist of, and the way to their kernels."""

from __future__ import annotations

import re
from io import BytesIO
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image
from tests.cli.conftest import told
from tests.dashboard.conftest import fits, settled, violations
from tests.dashboard.made import imported
from tests.dashboard.stories import judged

from holter.analysis.steps.outliers import slowest
from holter.analysis.steps.warmup import steady
from holter.pages.job import pages
from holter.store.trial import Trial
from holter.views.figures import chosen, draw
from holter.views.reading import Reading

OF_A_RANK = {
    "phases_over_time", "breakdown_over_steps", "step_histogram", "last_steps", "step_times",
    "loader_workers", "loader_waits", "batches_in_flight", "fetch_times", "batch_sizes",
    "losses", "learning_rate",
}  # fmt: skip
"""Charts of these pages that one rank has."""
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright comes with the extra dev")
expect = playwright.expect


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    store = folder / "store"
    judged(told("straggler", str(store), ranks=4, cores=4, steps=120, samples=300)[0])
    told("before", str(store), ranks=1, cores=4, steps=40, samples=100)
    imported(store, folder)
    return store


@pytest.fixture(scope="module")
def reading(store):
    from holter.store.job import find

    return Reading(Trial(find(str(store), "straggler")))


def test_the_slowest_steps_are_the_longest_each_once_with_all_their_parts(reading):
    steps = reading.steps.where(steady(reading.steps))
    found = slowest(steps, 30)
    longest = {
        int(step): int(steps["duration"][steps["step"] == step].max()) for step in np.unique(steps["step"])
    }
    expected = sorted(longest.values(), reverse=True)[:30]
    assert [round(one.duration_ms * 1e6) for one, _ in found] == expected
    assert len({one.step for one, _ in found}) == 30
    for one, parts in found:
        assert longest[one.step] == pytest.approx(one.duration_ms * 1e6)
        assert sum(parts.values()) == pytest.approx(one.duration_ms * 1e6, rel=0.01)


def test_a_slow_step_opens_in_the_timeline_by_its_number_and_by_its_bar(look, reading):
    longest = slowest(reading.steps.where(steady(reading.steps)), 1)[0][0]
    for click in ("a:text-matches('^[0-9,]+$')", "td a:has(.bar-of-parts)"):
        seen = look("/jobs/straggler/performance")
        table = seen.page.locator("[data-key=slow]")
        expect(table.locator("tbody tr")).to_have_count(30)
        row = table.locator("tbody tr").first
        assert row.locator("td").first.inner_text() == f"{longest.step:,}"
        bar = row.get_by_role("img").get_attribute("aria-label")
        assert re.fullmatch(rf"step {longest.step:,}: .*forward .*backward .*", bar)
        row.locator(click).first.click()
        seen.page.wait_for_url("**/timeline?*from=*")
        asked = parse_qs(urlsplit(seen.page.url).query)
        begin = (longest.time - reading.start) / 1e9
        assert float(asked["from"][0]) <= begin <= float(asked["to"][0])
        assert float(asked["to"][0]) - float(asked["from"][0]) < 2 * longest.duration_ms / 1e3
        assert seen.wrong == []


def test_a_rank_stays_from_page_to_page_until_all_are_chosen(look):
    seen = look("/jobs/straggler")
    page = seen.page
    choice = page.get_by_label("rank", exact=True)
    assert choice.input_value() == ""
    choice.select_option("2")
    page.wait_for_url("**rank=2*")
    for name in ("Performance", "System", "Profile", "Timeline", "Training", "Overview"):
        page.locator("nav.pages").get_by_role("link", name=name).click()
        expect(page.locator("h1").first).to_be_visible()
        assert "rank=2" in page.url, name
        assert choice.input_value() == "2"
    settled(page)
    page.keyboard.press("Control+k")
    expect(page.locator("dialog.palette li").first).to_be_visible()
    page.keyboard.type("step 1010")
    expect(page.locator("dialog.palette li").first).to_contain_text("step 1010")
    page.keyboard.press("Enter")
    page.wait_for_url("**/timeline?*from=*")
    assert "rank=2" in page.url
    choice.focus()
    page.keyboard.press("Home")
    page.wait_for_url(lambda url: "rank=" not in url)
    assert seen.wrong == []


@pytest.mark.parametrize("page", ["", "/performance", "/system", "/training", "/findings", "/configuration"])
def test_each_number_is_of_the_chosen_rank_or_says_all_ranks(look, page):
    seen = look(f"/jobs/straggler{page}?rank=2")
    settled(seen.page)
    for chart in seen.page.locator("[data-figure]").all():
        name, options = chart.get_attribute("data-figure"), chart.get_attribute("data-options") or ""
        of_rank = "rank=2" in options.split("&")
        assert of_rank == (name in OF_A_RANK), name
        said = chart.evaluate("one => getComputedStyle(one, '::after').content")
        assert (said == '"all ranks"') == (not of_rank), name
    marks = seen.page.locator(".tile, .card:has(> .card-head .all-ranks), .hero")
    for one in marks.all():
        expect(one.locator(".all-ranks").first).to_be_visible()
    expect(seen.page.locator(".all-ranks").first).to_be_visible() if page != "/training" else None
    assert violations(seen.page) == []
    seen = look(f"/jobs/straggler{page}")
    assert not any(one.is_visible() for one in seen.page.locator(".all-ranks").all())


def test_tables_and_charts_of_a_rank_have_its_rows_only(server, reading):
    page = server.get("/jobs/straggler/performance?rank=2")[1]
    slow = page.partition('data-key="slow"')[2].partition("</table>")[0]
    assert set(re.findall(r'class="n" data-value="(\d+)\.0">\d<', slow)) == {"2"}
    steps = reading.steps.where(reading.steps["rank"] == 2)
    drawn = draw("step_times", reading, **chosen("step_times", {"rank": "2"}))
    assert [series.name for series in drawn.series] == ["rank 2"]
    assert max(filter(None, drawn.series[0].high)) == pytest.approx(steps["duration"].max() / 1e6)
    assert draw("last_steps", reading, rank=2).note == "Rank 2."
    told = draw("losses", reading, rank=3)
    assert isinstance(told, str)
    assert told.startswith("Rank 3: "), "the first rank logged the loss"
    tracks = server.get("/jobs/straggler/timeline?rank=2&picture=yes")[1].partition("<summary>Tracks")[2]
    assert "<td>2</td>" in tracks
    assert "<td>1</td>" not in tracks


def test_the_timeline_of_a_rank_has_its_tracks_only(look):
    seen = look("/jobs/straggler/timeline?rank=2", height=1400)
    labels = seen.page.locator(".timeline-labels-inside")
    expect(labels).to_contain_text("system")
    seen.page.get_by_placeholder("filter tracks").fill("rank")
    expect(labels).to_contain_text("rank 2")
    expect(labels).not_to_contain_text("rank 1")
    assert seen.wrong == []


def test_a_rank_that_is_not_there_is_refused_and_a_rank_without_a_profile_says_so(server):
    status, text, _ = server.get("/jobs/straggler?rank=9")
    assert status == 404
    assert "this job has no rank 9; it has ranks 0 to 3" in text
    assert server.get("/jobs/straggler?rank=x")[0] == 400
    assert "rank 1" in server.get("/jobs/trace/profile?rank=1")[1]
    assert server.get("/jobs/trace/profile?rank=1&view=kernels")[0] == 200


def test_a_job_with_one_rank_has_no_choice_and_every_page_of_several_takes_one(server):
    assert 'class="rank"' not in server.get("/jobs/before")[1]
    for name in pages():
        for job in ("straggler", "trace"):
            status, text, _ = server.get(f"/jobs/{job}/{name}?rank=1")
            assert status == 200, (job, name)
            assert 'name="rank"' in text.partition("<main")[0], (job, name)


def test_the_choice_of_a_rank_fits_a_phone(look):
    page = look("/jobs/straggler/performance?rank=2", width=400).page
    settled(page)
    fits(page, 400)
    assert violations(page) == []


def test_a_shadow_tells_where_a_table_goes_on(look):
    page = look("/jobs/straggler/performance", width=400).page
    settled(page)
    table = page.locator(".slowest .scroll").first

    def edge() -> int:
        shown = Image.open(BytesIO(table.screenshot())).convert("L")
        return shown.getpixel((shown.width - 1, 4))

    goes_on = edge()
    table.evaluate("one => { one.scrollLeft = one.scrollWidth }")
    assert goes_on < edge()
