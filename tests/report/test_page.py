"""The report: whole, hostile names shown and not executed, a notebook that runs, axes that read well."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zlib
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from PIL import Image
from tests.cli.conftest import job, told

from holter.drawing.figure import thin
from holter.drawing.pieces import prose
from holter.drawing.png import image
from holter.drawing.svg import svg
from holter.drawing.ticks import clock, number, powers, ticks, times
from holter.pages.assets import complete
from holter.pages.file import page
from holter.pages.file.bundle import bundle
from holter.pages.text.overview import operations
from holter.pages.text.report import body
from holter.report.formats import notebook, report
from holter.schema.table import Table
from holter.store.job import create
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.figure import Axis, Figure, Series
from holter.views.figures import names
from holter.views.reading import Reading

HOSTILE = "<script>alert(1)</script>\"'&\u202e"
VOID = {"meta", "br", "link", "input", "img"}
fetched = pytest.mark.skipif(
    not complete(), reason="no third-party files here: `python hatch_build.py` needs npm and its registry"
)


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


@fetched
def test_the_page_is_whole_and_asks_for_nothing(trial):
    seen = Seen()
    text = page(Reading(trial))
    seen.feed(text)
    assert seen.open == []
    assert not seen.handlers
    assert "form" not in seen.tags
    assert all(link.startswith(("data:", "#")) for link in seen.links)
    assert "default-src 'none'" in text
    assert "&lt;script&gt;alert(1)" in text
    assert len(re.findall("<h2[ >]", text)) == text.count("</h2>") >= 6
    assert len(text) < 3_000_000
    # Only our own scripts run: the policy has a digest of each, and no other script.
    run = re.findall(r"<script(?: type=\"module\")?>(.*?)</script>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in run]
    assert re.findall(r"'sha256-([^']*)'", text[: text.index("<title>")]) == digests
    assert len(digests) == 2
    assert text.count("<script") == len(digests) + text.count('<script type="text/plain" data-ask="')


@fetched
def test_the_file_answers_what_its_charts_ask(trial):
    text = page(Reading(trial))
    given = dict(re.findall(r'data-ask="([^"]*)">([A-Za-z0-9+/=]*)</script>', text))
    told_ = {key: zlib.decompress(base64.b64decode(one)) for key, one in given.items()}
    assert {"clock", "heatmap", "figures/utilization", "figures/step_times"} <= set(told_)
    utilization = json.loads(told_["figures/utilization"])
    assert len(utilization["x"]) == 1500
    assert utilization["series"][0]["color"] == "c0"
    cells = told_["heatmap"]
    head = json.loads(cells[4 : 4 + int.from_bytes(cells[:4], "little")])
    assert [row["name"] for row in head["rows"] if row["metric"] == "cpu.core.util"] == [
        f"cpu{n}" for n in range(4)
    ]


def test_a_picture_has_no_more_points_than_there_is_room_for():
    values = [None if at < 4 else float(at) for at in range(1600)]
    of = Figure(
        title="t",
        kind="lines",
        x=list(range(1600)),
        x_axis=Axis("time", "s"),
        y_axis=Axis("y"),
        series=[Series("s", values, [v and v - 1 for v in values], [v and v + 1 for v in values])],
    )
    made = thin(of)
    assert (len(made.x), made.x[:2]) == (400, [1.5, 5.5])
    series = made.series[0]
    assert (series.values[:2], series.low[1], series.high[1]) == ([None, 5.5], 3.0, 8.0)
    assert "up to 4 of the data" in made.note
    assert thin(made) is made


def test_modules_become_one_script_in_the_order_of_their_needs(tmp_path):
    (tmp_path / "a.js").write_text(
        'import { b as c } from "./b.js";\nimport d from "./d.js";\n/** import { x } from "y"; */\n'
        "export const a = c() + d;\n"
    )
    (tmp_path / "b.js").write_text('import d from "./d.js";\nexport function b() { return d; }\n')
    (tmp_path / "d.js").write_text("const d = 1;\nexport { d as default };\n")
    text = bundle(tmp_path / "a.js")
    assert text.index("const d = 1") < text.index("function b()") < text.index("const a = c() + d")
    assert text.count("const d = 1") == 1
    assert "import" not in text
    assert "export" not in text
    (tmp_path / "d.js").write_text('import { a } from "./a.js";\nexport default a;\n')
    with pytest.raises(ValueError, match=r"a\.js imports itself"):
        bundle(tmp_path / "a.js")
    (tmp_path / "d.js").write_text('export * from "./e.js";\n')
    with pytest.raises(ValueError, match="not understood: export"):
        bundle(tmp_path / "a.js")


def test_the_verdict_comes_first_with_its_numbers(trial):
    text = page(Reading(trial))
    assert text.index("Data loading takes 60 %") < text.index("<h2>The job</h2>")
    assert "node node-0" in text
    assert "steps 3 to 9" in text


def test_a_long_command_is_opened_when_asked_for_and_a_failed_job_is_not_well(tmp_path):
    long = job("long", str(tmp_path), status="Failed", command=["python", "y" * 10_000], exit_code=1)
    page = "".join(body(Reading(Trial(long))))
    assert "<summary><code>python yyy" in page
    assert page.count("y" * 10_000) == 1
    assert 'class="verdict sick"' in page


def test_what_stands_in_backticks_is_code_and_all_else_is_text():
    assert prose("run `a<b` & go") == "run <code>a&lt;b</code> &amp; go"
    assert prose("a ` alone") == "a ` alone"


def test_an_empty_job_says_what_is_missing_and_how_to_record_it(tmp_path):
    text = page(Reading(Trial(job("empty", str(tmp_path / "store")))))
    assert "holter.step()" in text
    assert "No rule checked this job while it ran" in text
    assert 'class="chart"' not in text.replace("svg.chart", "")


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


@fetched
def test_traces_that_began_years_apart_have_a_report(tmp_path):
    folder = create(str(tmp_path), "apart", command=["a"], interval_ms=500, rules=[], now_ns=1)
    span = {"rank": 0, "node": "n", "thread": 0, "worker": -1, "step": 1, "mode": "train", "phase": "step"}
    times = [1_000_000_000, 1_600_000_000 * 10**9]
    writer = Writer(folder, "n")
    rows = [{**span, "time": time, "duration": 10**9, "value": 1.0} for time in times]
    writer.append("spans", Table.of("spans", rows).columns)
    writer.close()
    folder.update(start=times[0], end=times[1] + 10**9, status="Completed")
    text = page(Reading(Trial(folder)))
    assert 'data-ask="timeline"' not in text, "scripts do not count so far: the picture stays"
    assert 'id="timeline"' in text


@pytest.mark.parametrize(
    ("value", "said"), [(0.00034, "3.4e-4"), (-3e-5, "-3e-5"), (1.25e7, "1.25e7"), (0.25, "0.25")]
)
def test_numbers_beside_an_axis_are_as_short_as_in_the_browser(value, said):
    assert number(value) == said


def test_a_window_is_advised_as_the_job_can_have_one():
    running, ended = (
        operations({"operators": None, "job": {"name": "mine", "status": status}})
        for status in ("InProgress", "Completed")
    )
    assert "holter profile mine" in running
    assert "holter profile" not in ended
    assert "holter run --profile-steps 100:101" in ended
