"""The pages of a job as the server draws them, and the data behind their charts."""

from __future__ import annotations

import gzip
import html
import json
import os
import re
import shutil
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import job, told
from tests.dashboard.serving import BEARER, serving, until
from tests.dashboard.stories import judged

from holter.dashboard import job_list
from holter.store.job import find
from holter.store.trial import Trial

PAGES = ["", "/performance", "/system", "/profile", "/training", "/findings", "/configuration", "/controls"]
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pages") / "store"
    made, _ = told("before", str(folder), ranks=2, cores=4, steps=100, samples=400)
    judged(made)
    job("empty", str(folder))
    job("running", str(folder), status="InProgress", age_s=1)
    failed = job("failed", str(folder), status="Failed", exit_code=1, command=["python", HOSTILE])
    failed.write_evaluations({"rules": [_rule()]})
    broken = job("broken", str(folder))
    (folder / "broken/job.json").write_text("{")
    assert broken.fault
    return folder


def _rule():
    start = time.time_ns() - 60 * 10**9
    issue = {
        "summary": HOSTILE,
        "severity": "critical",
        "advice": HOSTILE,
        "evidence": {HOSTILE: HOSTILE},
        "time_start": start + 10**10,
        "time_end": start + 2 * 10**10,
    }
    return {"rule": "r", "name": HOSTILE, "status": "IssuesFound", "parameters": {}, "issues": [issue]}


@pytest.mark.parametrize("name", ["before", "empty", "running", "failed", "broken"])
@pytest.mark.parametrize("page", PAGES)
def test_every_page_of_every_kind_of_job_is_there(server, name, page):
    status, text, _ = server.get(f"/jobs/{name}{page}")
    assert status == 200
    assert HOSTILE not in text
    assert "Traceback" not in text
    assert len(re.findall("<h1>", text)) == 1
    assert text.count('aria-current="page"') == 1


def test_a_page_that_is_not_there_names_those_that_are(server):
    status, text, _ = server.get("/jobs/before/nods")
    assert status == 404
    assert "overview, performance, system, profile, timeline, training, findings" in text


def test_a_page_is_drawn_whole_without_scripts_and_bare_when_it_is_only_refreshed(server):
    whole = server.get("/jobs/before")[1]
    inside = server.get("/jobs/before?part=inside")[1]
    assert whole.count("<svg") > 5
    assert 'data-island="figure"' in inside
    assert 'class="chart"' not in inside
    assert "<header" not in inside


def test_a_window_is_kept_from_page_to_page(server):
    page = server.get("/jobs/before/system?store=0&from=10&to=20.5&axis=step")[1]
    assert "/jobs/before?store=0&amp;from=10&amp;to=20.5&amp;axis=step" in page


@pytest.mark.parametrize(
    "query", ["from=x&to=3", "from=5&to=5", "from=9&to=1", "to=inf", "from=1", "width=0", "width=x"]
)
def test_a_window_that_is_none_is_refused_in_words(server, query):
    for path in ("/jobs/before", "/api/v1/jobs/before/figures/utilization"):
        status, text, _ = server.get(f"{path}?{query}")
        assert status == 400
        assert "window" in text or "valid: a" in text


def test_a_zoom_is_drawn_from_data_of_its_own(server):
    figure = "/api/v1/jobs/before/figures/step_times?width=50"
    whole = server.json(figure)[1]
    first, last = whole["x"][10], whole["x"][20]
    clock = server.json("/api/v1/jobs/before/clock?width=4000")[1]
    begin, end = (clock["time"][clock["step"].index(round(step))] for step in (first, last))
    part = server.json(f"{figure}&from={begin}&to={end}")[1]
    assert len(part["x"]) > 11, "more points than the whole had there"
    assert min(part["x"]) >= first - 2
    assert max(part["x"]) <= last + 2


def test_several_charts_are_one_answer(server):
    path = "/api/v1/jobs/before/figures?names=utilization,gpu_boxes,layer_map&width=100&html=yes"
    found = server.json(path)[1]["figures"]
    assert found["utilization"]["series"][0]["color"] == "c0"
    assert found["gpu_boxes"]["html"].startswith("<figure")
    assert "save gradients" in found["layer_map"]["missing"]
    assert server.json("/api/v1/jobs/before/figures?names=utilization,nothing")[0] == 404


def test_chosen_cores_are_drawn_beside_the_mean(server):
    path = "/api/v1/jobs/before/figures/cores?width=100"
    assert len(server.json(path)[1]["series"]) == 1
    names = [one["name"] for one in server.json(f"{path}&devices=cpu1,cpu3")[1]["series"]]
    assert names[1:] == ["cpu1", "cpu3"]
    page = server.get("/jobs/before/system?cores=cpu1&cores=cpu3")[1]
    assert page.count("checked") == 2


def test_insights_say_evidence_advice_formula_and_the_moment(server):
    page = server.get("/jobs/before/findings")[1]
    assert "Fires when:" in page
    assert "show the worst moment" in page
    assert re.search(r'href="/jobs/before/(?:system|performance)\?store=0&amp;from=[\d.]+&amp;to=', page)
    hostile = server.get("/jobs/failed/findings")[1]
    assert "&lt;script&gt;" in hostile


def test_a_running_job_says_when_it_will_be_done(server):
    assert "No steps recorded so far" in server.get("/jobs/running?total_steps=100")[1]


def test_scripts_are_kept_by_browsers_and_never_stale(server):
    page = server.get("/")[1]
    address = re.search(r'src="(/app/[^"]+start\.js)"', page)[1]
    status, _, headers = server.get(address)
    assert status == 200
    assert "immutable" in headers["cache-control"]
    assert headers["content-type"].startswith("text/javascript")
    assert server.get("/app/x/nothing.js")[0] == 404
    assert "no-store" in server.get("/")[2]["cache-control"]


@pytest.mark.parametrize("page", ["", "/performance", "/system"])
def test_a_page_and_all_that_it_loads_is_light(server, page):
    text = server.get(f"/jobs/before{page}")[1]
    files = {*re.findall(r'(?:src|href)="(/app/[^"]+)"', text)}
    at = re.search(r'"(/app/[^/]+/)start\.js"', text)[1]
    files |= {
        f"{at}{name}.js"
        for name in (
            *(
                "clock",
                "drawer",
                "header",
                "keys",
                "live",
                "morph",
                "orders",
                "page",
                "palette",
                "window",
                "words",
            ),
            *("figures", "islands/strip"),
        )
    }
    files |= {f"{at}{name}.js" for name in ("plot", "plot_data", "legend", "islands/figure", "islands/chips")}
    names = ",".join({*re.findall(r'data-figure="(\w+)"', text)})
    asked = [f"/jobs/before{page}", f"/api/v1/jobs/before/figures?names={names}&width=800&html=yes", *files]
    if "vendor/uPlot.css" in text:
        asked.append(f"{at}vendor/uPlot.esm.js")
    weight = {}
    for path in asked:
        with closing(server.connection()) as connection:
            connection.request("GET", path, headers={**BEARER, "Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            assert answer.status == 200, path
            weight[path] = len(answer.read())
    assert sum(weight.values()) < 300_000, weight


def test_a_profiling_window_is_asked_for_or_refused_in_words(server, store):
    path = "/api/v1/jobs/running/profile"
    ask = lambda body: server.ask(path, "POST", json.dumps(body), **BEARER)  # noqa: E731
    assert ask({"operators": True, "steps": 2})[0] == 200
    order = json.loads((store / "running/control.json").read_text())["profile"]
    assert (order["steps"], order["operators"]) == (2, True)
    for body, part in (
        ({"steps": 0}, "valid: 1 to"),
        ({"step": 1}, "steps"),
        ({"python": "pyinstrument", "timer": "cpu_time"}, "cprofile"),
    ):
        status, text, _ = ask(body)
        assert status == 400
        assert part in json.loads(text)["error"]
    assert server.ask("/api/v1/jobs/before/profile", "POST", "{}", **BEARER)[0] == 409


def test_a_long_list_reads_ended_jobs_once(tmp_path):
    store = tmp_path / "store"
    for number in range(30):
        job(f"job-{number}", str(store))
    with serving(store) as server:
        assert server.json("/api/v1/jobs")[1]["count"] == 30
        find(str(store), "job-7").update(status="Stopped")
        shutil.rmtree(store / "job-8")
        job("job-30", str(store), status="Failed")
        found = lambda: {one["name"]: one["status"] for one in server.json("/api/v1/jobs")[1]["jobs"]}  # noqa: E731
        until(lambda: (found().get("job-7"), found().get("job-30")) == ("Stopped", "Failed"))
        assert len(found()) == 30


def test_of_thousands_of_jobs_those_that_changed_last_are_read_first(tmp_path):
    store = tmp_path / "store"
    for number in range(6):
        one = job(f"job-{number}", str(store))
        at = 10**9 + number
        os.utime(Path(one.url) / "job.json", (at, at))
    jobs = job_list.JobList([str(store)], at_once=2)

    def read():
        found, _ = jobs.all(whole=False)
        assert len(found) == 6
        return {one["name"] for one in found if one["status"] != job_list.UNREAD}

    for known in (2, 4, 6):
        newest = {f"job-{number}" for number in range(6 - known, 6)}
        until(lambda newest=newest: len(read()) >= len(newest))
        assert read() >= newest
    again = job_list.JobList([str(store)], at_once=2)
    again.all(whole=False)
    assert {one["status"] for one in again.all()[0]} == {"Completed"}


def test_the_age_of_what_is_shown_is_that_of_the_newest_sample(server, store):
    trial = Trial(find(str(store), "before"))
    newest = int(trial.table("samples")["time"].max())
    assert trial.newest("samples") == newest
    assert trial.newest("tensors") is None
    asked = time.time()
    with closing(server.connection()) as connection:
        connection.request("GET", "/events?job=before&store=0", headers=BEARER)
        with connection.getresponse() as stream:
            lines = [stream.readline().decode() for _ in range(3)]
    assert lines[1] == "event: hello\n"
    age = json.loads(lines[2].removeprefix("data: "))["age_s"]
    assert asked - newest / 1e9 <= age <= time.time() - newest / 1e9


def test_what_changed_while_a_page_was_on_its_way_is_told_at_once(tmp_path):
    told("before", str(tmp_path / "store"), ranks=1, cores=1, steps=30, samples=30)
    heard = []
    with serving(tmp_path / "store") as server:
        listens_to = html.unescape(re.search('data-events="([^"]+)"', server.get("/jobs/before")[1])[1])
        find(str(tmp_path / "store"), "before").update(status="Stopped")
        until(lambda: server.json("/api/v1/jobs/before")[1]["job"]["status"] == "Stopped")
        with closing(server.connection()) as connection:
            connection.request("GET", listens_to, headers=BEARER)
            with connection.getresponse() as stream:
                while "event: changed" not in heard and ": still here" not in heard:
                    heard.append(stream.readline().decode().strip())
    assert "event: hello" in heard
    assert "event: changed" in heard


def test_answers_are_compressed(server):
    with closing(server.connection()) as connection:
        connection.request("GET", "/jobs/before", headers={**BEARER, "Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        assert answer.headers["content-encoding"] == "gzip"
        assert b"<!doctype html>" in gzip.decompress(answer.read())
