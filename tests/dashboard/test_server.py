"""The dashboard as a browser and a program meet it: a server of its own, asked over HTTP."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import SOURCE, job, told
from tests.dashboard.serving import BEARER, PATIENCE_S, serving, until

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "store"
    made, _ = told("before", str(folder), ranks=2, cores=2, steps=100, samples=100)
    made.update(command=["python", HOSTILE])
    told("after", str(folder), ranks=2, cores=2, steps=100, samples=100)
    job("empty", str(folder))
    job("broken", str(folder))
    (folder / "broken/job.json").write_text("{")
    return folder


def test_without_the_token_nothing_is_told(server):
    for path in ("/", "/jobs/before", "/api/v1/jobs", "/metrics", "/events", "/app/x/page.js"):
        status, text, _ = server.ask(path)
        assert status == 401, path
        assert "before" not in text
    assert server.ask("/", Cookie="holter_token=wrong")[0] == 401
    assert server.ask("/?token=wrong")[0] == 401


def test_the_token_of_the_address_becomes_a_cookie_that_scripts_cannot_read(server):
    status, _, headers = server.ask("/jobs/before?store=0&token=secret-token")
    assert status == 303
    assert headers["location"] == "/jobs/before?store=0"
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert server.ask(headers["location"], Cookie=cookie.split(";")[0])[0] == 200


def test_another_name_for_this_machine_is_refused(server):
    assert server.ask("/api/v1/jobs", Host="evil.example", **BEARER)[0] == 421


def test_orders_come_from_our_own_pages_or_with_the_token_in_hand(server):
    cookie = {"Cookie": f"holter_token_{server.port}=secret-token"}
    path = "/api/v1/jobs/before/stop"
    assert server.ask(path, "POST", "{}", **cookie)[0] == 403
    assert server.ask(path, "POST", "{}", Origin="http://evil.example", **cookie)[0] == 403
    assert server.ask(path, "POST", "{}", Origin=f"http://{server.own}", **cookie)[0] == 409
    assert server.ask(path, "POST", "{}", **BEARER)[0] == 409


def test_every_answer_forbids_what_does_not_belong_here(server):
    for path in ("/", "/api/v1/jobs", "/app/x/page.js", "/jobs/nothing"):
        headers = server.get(path)[2]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_jobs_are_listed_searched_and_damaged_ones_named(server):
    status, told_ = server.json("/api/v1/jobs")
    assert status == 200
    assert {one["name"]: one["status"] for one in told_["jobs"]} == {
        "before": "Completed",
        "after": "Completed",
        "empty": "Completed",
        "broken": "Unreadable",
    }
    assert [one["name"] for one in server.json("/api/v1/jobs?name=BEF")[1]["jobs"]] == ["before"]
    assert server.json("/api/v1/jobs?limit=1&offset=1")[1]["count"] == 4
    assert len(server.json("/api/v1/jobs?limit=1")[1]["jobs"]) == 1
    # The stories are told of 2023, the others are made now; each day is this machine's.
    early = server.json("/api/v1/jobs?until=2023-11-16")[1]["jobs"]
    assert sorted(one["name"] for one in early) == ["after", "before"]
    late = server.json("/api/v1/jobs?since=2023-11-17")[1]["jobs"]
    assert "empty" in [one["name"] for one in late]
    assert "before" not in [one["name"] for one in late]
    assert server.json("/api/v1/jobs?since=2023-13-01")[0] == 400
    page = server.get("/?status=Unreadable")[1]
    assert "broken" in page
    assert ">before</a>" not in page


def test_a_job_is_described_drawn_and_reported(server):
    assert server.json("/api/v1/jobs/before")[1]["verdict"]["suspect"] == "data_pipeline"
    assert server.json("/api/v1/jobs/before/figures/step_times")[1]["kind"] == "lines"
    assert "save gradients" in server.json("/api/v1/jobs/before/figures/layer_map")[1]["missing"]
    assert server.json("/api/v1/jobs/before/figures/nothing")[0] == 404
    assert server.json("/api/v1/jobs/before/issues")[1]["issues"] == []
    status, text, headers = server.get("/api/v1/jobs/before/report")
    assert status == 200
    assert "attachment" in headers["content-disposition"]
    assert text.startswith("<!doctype html>")


def test_the_page_of_a_job_says_it_all_and_executes_nothing(server):
    status, page, _ = server.get("/jobs/before?store=0")
    assert status == 200
    assert "Data loading takes 60 %" in page
    assert page.count("<svg") >= 7
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert [tag for tag in re.findall(r"<script[^>]*>", page) if 'src="/app/' not in tag] == []
    assert "No steps" in server.get("/jobs/empty")[1]


def test_jobs_are_compared_with_the_oldest(server):
    page = server.get("/compare?job=0/after&job=0/before")[1]
    assert "less time" in page or "more time" in page
    assert "(the oldest)" in page
    swapped = server.get("/compare?job=after&job=before&baseline=after")[1]
    assert "Baseline: <b>after</b>." in swapped
    assert "before against after" in re.sub("<[^>]+>", "", swapped)
    code, refused, _ = server.get("/compare?job=after&job=before&baseline=other")
    assert code == 400
    assert "not among the compared jobs" in refused
    asked = "/api/v1/compare/figures?job=0/after&job=0/before"
    assert server.json(asked)[1]["figures"]["step_times"]["kind"] == "lines"
    status, told_ = server.json(f"{asked}&names=nothing")
    assert status == 404
    assert "step_times" in told_["error"]
    status, page, _ = server.get("/compare?job=0/after")
    assert status == 400
    assert "select two or more jobs" in page


@pytest.mark.parametrize(
    ("path", "code", "part"),
    [
        ("/jobs/nothing", 404, "nothing"),
        ("/jobs/before?store=7", 404, "there is no store 7"),
        ("/jobs/before?store=x", 400, "valid: a whole number"),
        ("/api/v1/jobs/nothing", 404, "nothing"),
        ("/api/v1/jobs/..%2f..%2fetc", 404, ""),
        ("/api/v2", 404, "There is nothing"),
        ("/app/x/..%2f..%2fserver.py", 404, ""),
        ("/events?job=before&store=x", 400, "valid: a whole number"),
        ("/compare?job=9/x&job=0/y", 404, "store"),
    ],
)
def test_what_is_not_there_is_a_sentence_and_a_way_on(server, path, code, part):
    status, text, _ = server.get(path)
    assert status == code
    assert part in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("order", "body", "code", "part"),
    [
        ("fly", "{}", 404, "configure, profile, stop"),
        ("configure", '{"interval_ms": 300}', 400, "500"),
        ("configure", "not json", 400, "JSON object"),
        ("stop", '{"grace_s": -1}', 400, "0 to 86400"),
        ("stop", '{"grace_s": true}', 400, "0 to 86400"),
        ("stop", "{}", 409, "is not running (it is Completed)"),
    ],
)
def test_a_bad_order_is_refused_in_words(server, order, body, code, part):
    status, text, _ = server.ask(f"/api/v1/jobs/before/{order}", "POST", body, **BEARER)
    assert status == code
    assert part in json.loads(text)["error"]


def test_metrics_are_what_prometheus_reads(server):
    text = server.get("/metrics")[1]
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) holter_\w+ .+|holter_\w+(\{.*\})? [-+.e\d]+", line), line
    assert 'holter_jobs{status="Completed"} 3' in text


def test_a_store_that_vanishes_and_comes_back(tmp_path):
    told("before", str(tmp_path / "store"), ranks=1, cores=1, steps=30, samples=30)
    with serving(tmp_path / "store", tmp_path / "none") as server:
        assert server.json("/api/v1/jobs")[1]["count"] == 1
        shutil.move(tmp_path / "store", tmp_path / "away")
        until(lambda: server.get("/jobs/before")[0] == 404)
        until(lambda: "the jobs that it had (1) are gone" in server.get("/")[1])
        assert "No job yet" not in server.get("/")[1]
        shutil.move(tmp_path / "away", tmp_path / "store")
        until(lambda: server.get("/jobs/before")[0] == 200)


def test_a_running_job_is_followed_and_takes_orders(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import time, holter\nwhile True:\n    with holter.step():\n        time.sleep(0.02)\n")
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "HOLTER_STORE": str(tmp_path / "store")}
    command = [sys.executable, "-m", "holter", "run", "--job", "live", "--", sys.executable, str(script)]
    run = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until((tmp_path / "store/live/job.json").exists)
        with serving(tmp_path / "store") as server:
            began = time.monotonic()
            with closing(server.connection()) as connection:
                connection.request("GET", "/events?job=live&store=0", headers=BEARER)
                with connection.getresponse() as stream:
                    while b"event: changed" not in stream.readline():
                        assert time.monotonic() - began < PATIENCE_S
            until(lambda: (server.json("/api/v1/jobs/live")[1]["steps"] or {}).get("count"))
            assert "Stop the training" in server.get("/jobs/live/controls")[1]
            assert "holter_steps_total{" in server.get("/metrics")[1]
            order = ("/api/v1/jobs/live/configure", "POST", '{"interval_ms": 1000}')
            assert server.ask(*order, **BEARER)[0] == 200
            assert server.ask("/api/v1/jobs/live/stop", "POST", "{}", **BEARER)[0] == 200
            run.wait(PATIENCE_S)
            until(lambda: server.json("/api/v1/jobs/live")[1]["job"]["status"] == "Stopped")
    finally:
        run.kill()
        run.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("words", "part"), [(["--port", "70000"], "0 to 65535"), (["--host", "no.such.host"], "cannot listen")]
)
def test_where_nobody_can_listen_is_said_in_a_line(words, part):
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-m", "holter", "ui", *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 64
    assert part in done.stderr
    assert done.stderr.count("\n") == 1
