"""The report: whole, hostile names shown and not executed, a notebook that runs, axes that read well."""

from __future__ import annotations

import base64
import io
import json
import zlib
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from PIL import Image
from tests.cli.conftest import job, told

from holter.report.cells import image
from holter.report.formats import notebook, report
from holter.report.html import page
from holter.report.svg import svg
from holter.report.ticks import clock, number, powers, ticks, times
from holter.store.trial import Trial
from holter.views.figures import Axis, Figure, Reading, Series, names

HOSTILE = "<script>alert(1)</script>\"'&\u202e"
VOID = {"meta", "br"}


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    store = str(tmp_path_factory.mktemp("report") / "store")
    folder, _ = told("before", store, ranks=2, cores=4, steps=200, samples=400)
    issue = {
        "summary": HOSTILE,
        "severity": "critical",
        "node": "node-0",
        "rank": None,
        "step_start": 3,
        "step_end": 9,
        "evidence": {HOSTILE: 1},
        "advice": HOSTILE,
    }
    rule = {
        "rule": "r",
        "name": HOSTILE,
        "status": "IssuesFound",
        "parameters": {"x": HOSTILE},
        "issues": [issue],
    }
    folder.write_evaluations({"rules": [rule]})
    folder.update(command=["python", HOSTILE])
    return Trial(folder)


class Seen(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.handlers = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_for_nothing(trial):
    seen = Seen()
    text = page(Reading(trial))
    seen.feed(text)
    assert seen.open == []
    assert "script" not in seen.tags
    assert not seen.handlers
    assert all(link.startswith("data:image/png;base64,") for link in seen.links)
    assert "default-src 'none'" in text
    assert "&lt;script&gt;alert(1)" in text
    assert text.count("<h2>") == text.count("</h2>") >= 6
    assert len(text) < 3_000_000


def test_the_verdict_comes_first_with_its_numbers(trial):
    text = page(Reading(trial))
    assert text.index("Data loading takes 60 %") < text.index("<h2>The job</h2>")
    assert "node node-0" in text
    assert "steps 3 to 9" in text


def test_an_empty_job_says_what_is_missing_and_how_to_record_it(tmp_path):
    text = page(Reading(Trial(job("empty", str(tmp_path / "store")))))
    assert "holter.step()" in text
    assert "No rule has judged this job" in text
    assert "<svg" not in text


def test_json_holds_the_description_and_every_chart(trial):
    told_ = json.loads(report(trial, "json"))
    assert told_["description"]["verdict"]["suspect"] == "data_pipeline"
    assert {*told_["figures"], *told_["missing"]} == set(names())
    assert told_["figures"]["step_times"]["kind"] == "lines"
    with pytest.raises(ValueError, match="html, ipynb, json"):
        report(trial, "pdf")


def test_the_notebook_runs_cell_by_cell(trial):
    cells = notebook(trial)["cells"]
    space: dict[str, object] = {}
    shown = 0
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        *lines, last = cell["source"].splitlines()
        exec("\n".join(lines), space)
        value = eval(last, space)
        drawn = value._repr_html_() if hasattr(value, "_repr_html_") else str(value)
        shown += "<svg" in drawn
    assert shown >= 8
    assert len({cell["id"] for cell in cells}) == len(cells)


@pytest.mark.parametrize("kind", ["lines", "stacked", "bars", "heatmap", "boxes"])
@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("gap", ["none", "first", "all"])
def test_every_kind_of_chart_is_drawn_with_gaps(kind, count, gap):
    values = [None if gap == "all" or (gap == "first" and at == 0) else float(at + 1) for at in range(count)]
    x = ["a"] * count if kind in ("bars", "boxes") else list(range(count))
    figure = Figure(
        title=HOSTILE,
        kind=kind,
        x=x,
        x_axis=Axis("time since the start", "s"),
        y_axis=Axis(HOSTILE, "%"),
        series=[Series(HOSTILE * 3, values if kind != "boxes" else (values * 5)[:5], values, values)],
    )
    drawn = svg(figure)
    ElementTree.fromstring(drawn)
    assert "<script" not in drawn
    assert "nan" not in drawn.lower().replace("finance", "")


def test_cells_are_pixels_and_gaps_are_transparent():
    data = image([[0.0, 50.0, None], [100.0, 200.0, -5.0]], 0, 100)
    picture = Image.open(io.BytesIO(base64.b64decode(data.split(",")[1]))).convert("RGBA")
    assert picture.size == (3, 2)
    assert picture.getpixel((2, 0))[3] == 0
    assert picture.getpixel((0, 0)) == picture.getpixel((2, 1)) == (0, 32, 77, 255)
    assert picture.getpixel((0, 1)) == picture.getpixel((1, 1)) == (255, 234, 70, 255)
    assert zlib.crc32(base64.b64decode(image([], 0, 1).split(",")[1])) != 0


@pytest.mark.parametrize(
    ("low", "high", "told_"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-3, 4, [-2, 0, 2, 4]),
        (5, 5, [5]),
    ],
)
def test_ticks_are_round(low, high, told_):
    assert ticks(low, high) == pytest.approx(told_)


def test_times_are_said_as_people_say_them():
    assert [clock(at) for at in times(3600)] == ["0", "10 min", "20 min", "30 min", "40 min", "50 min", "1 h"]
    assert [clock(at) for at in times(4)] == ["0", "1 s", "2 s", "3 s", "4 s"]
    assert clock(90) == "1:30 min"
    assert clock(5400) == "1:30 h"
    assert clock(3 * 86400 + 7200) == "3 d 2 h"
    assert powers(0.002, 30) == pytest.approx([0.01, 0.1, 1, 10])
    assert [number(v) for v in (0, 0.25, 1200, 3e-5, 2.5e9)] == ["0", "0.25", "1,200", "3e-5", "2.5e9"]
