"""Push over OTLP: the real client, a real receiver, endpoints that are away, secrets that stay so."""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import subprocess
import sys
import threading
import time

import pytest
from tests.cli.conftest import SOURCE, command, told

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra `otlp` is not installed")

from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from tests.ports import free_port
from tests.report.collector import collecting, points

from holter.cli import main
from holter.cli.run.pushing import push_rest
from holter.report.otlp import Push, address, shown
from holter.report.otlp.issues import IssuePush, logs_address
from holter.schema.companions import FAULT
from holter.store.job import JobNotFound, find
from holter.store.layout import TOLD
from holter.store.trial import Trial
from holter.views.telemetry import OUTGOING

SECRET = "s3cret-of-mine"
TRAINING = """
import os, sys, time, holter
step = 0
while step < 100 or not os.path.exists(sys.argv[1]):
    with holter.step():
        time.sleep(0.02)
    holter.log(loss=float("nan") if step == 60 else 1.0)
    step += 1
"""


def recorded(tmp_path, seen, *words, **variables):
    """Train until `seen(store)` holds; return the command that ended, and what is described of the job."""
    script, enough = tmp_path / "train.py", tmp_path / "enough"
    script.write_text(TRAINING)
    store = str(tmp_path / "store")
    asked = [
        "run",
        "--store",
        store,
        "--job",
        "pushed",
        *words,
        "--",
        sys.executable,
        str(script),
        str(enough),
    ]
    ended = threading.Event()

    def wait():
        until = time.monotonic() + 240
        while time.monotonic() < until and not ended.wait(0.1) and not seen(store):
            pass
        enough.touch()

    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        done = command(*asked, env=variables, timeout=400)
    finally:
        ended.set()
        waiting.join()
    return done, described(store)


def described(store, name="pushed"):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(["describe", name, "--store", store, "--json"]) == 0
    return json.loads(said.getvalue())


def faults_of(store, name="pushed"):
    """Return what the job says of pushing, as far as it is stored."""
    try:
        events = Trial(find(store, name)).table("events")
    except (JobNotFound, OSError):
        return []
    return [
        row["detail"] for row in events.where(events["kind"] == "fault").to_rows() if row["name"] == "otlp"
    ]


def away():
    """Return an address where nobody listens."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.mark.slow
def test_a_job_that_runs_is_pushed_to_its_end(tmp_path):
    with collecting() as collector:
        variables = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {SECRET}"}
        done, told_of = recorded(tmp_path, lambda _: collector.arrived, "--otlp", collector.url, **variables)
    assert done.returncode == 0, done.stderr
    assert collector.arrived[0] < told_of["job"]["end"] < collector.arrived[-1], "while it runs, and the rest"
    got = collector.points()
    assert {point["name"] for point in got} <= set(OUTGOING)
    assert {"holter_steps_total", "holter_step_seconds", "holter_cpu_util_percent"} <= {
        p["name"] for p in got
    }
    assert all(p["unit"] == OUTGOING[p["name"]].unit and p["labels"]["job_name"] == "pushed" for p in got)
    assert {p["resource"]["service.name"] for p in got} == {"holter"}
    counts = [(p["time"], p["value"], p["kind"]) for p in got if p["name"] == "holter_steps_total"]
    assert counts == sorted(counts), "in the order of time, and it only grows"
    assert len({at for at, *_ in counts}) == len(counts), "every stretch once"
    assert counts[-1][1:] == (told_of["steps"]["count"], "sum")
    assert counts[-1][1] >= 100
    median = [p["value"] for p in got if p["labels"].get("quantile") == "0.5"]
    # The clock of the recorder and that of sleep may differ by a tick.
    assert all(0.0199 <= value <= told_of["steps"]["max_ms"] / 1e3 for value in median)
    found = [p["value"] for p in got if p["labels"].get("rule") == "NonFiniteLoss"]
    assert found
    assert found[-1] == 1
    told_issues = [one for one in collector.issues() if one["rule"] == "NonFiniteLoss"]
    assert [(one["job_name"], one["severity"], one["status"]) for one in told_issues][:1] == [
        ("pushed", 17, "open")
    ]
    assert len({(one["rule"], one["status"], one.get("rank")) for one in told_issues}) == len(told_issues)
    assert all(headers["authorization"] == f"Bearer {SECRET}" for headers in collector.headers)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert not kept, "the secret was stored"
    assert SECRET not in done.stdout + done.stderr


def test_an_endpoint_that_is_away_is_told_once_and_harms_nothing(tmp_path, capsys, monkeypatch):
    """The process beside a job, as the agent starts it; that it does is seen above."""
    monkeypatch.setattr("tests.generated.story.START_NS", time.time_ns() - 60 * 10**9)
    folder, story = told("before", str(tmp_path / "store"), ranks=1, cores=1, steps=30, samples=60)
    folder.update(status="InProgress", end=None)
    endpoint = away()
    # Within one second the client may give up before it has said why.
    surroundings = {**os.environ, "PYTHONPATH": str(SOURCE), "OTEL_EXPORTER_OTLP_TIMEOUT": "2"}
    words = [sys.executable, "-m", "holter.report.otlp", folder.url, endpoint]
    with subprocess.Popen(words, env=surroundings, stdout=subprocess.PIPE, text=True) as beside_it:
        try:
            assert select.select([beside_it.stdout], [], [], 120)[0], "it says nothing"
            line = beside_it.stdout.readline()
            time.sleep(1)
        finally:
            beside_it.terminate()
        assert beside_it.stdout.read() == "", "once"
    assert line.startswith(f"{FAULT}otlp: {endpoint}/v1/metrics does not take metrics (connection refused)")
    assert beside_it.returncode == 0
    assert json.loads(folder.place.read(TOLD))["told"]
    monkeypatch.setattr("holter.cli.run.pushing.LAST_S", 2)
    folder.update(status="Completed", end=story.manifest["end"])
    push_rest(folder, endpoint, "node-0")
    assert capsys.readouterr().err.count("were not sent") == 1
    assert not faults_of(str(tmp_path / "store"), "before"), "the agent has written what it was told"


def test_a_job_too_short_for_a_push_is_told_at_its_end_that_nothing_was_taken(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("holter.cli.run.pushing.LAST_S", 2)
    store = str(tmp_path / "store")
    folder, _ = told("before", store, ranks=1, cores=1, steps=30, samples=60)
    assert not faults_of(store, "before")
    push_rest(folder, away(), "node-0")
    assert "were not sent" in capsys.readouterr().err
    (fault,) = described(store, "before")["cost"]["faults"]
    assert "does not take metrics (connection refused)" in fault["error"]
    folder.place.write(TOLD, json.dumps({"schema": 1, "sent_until": 0, "told": True}).encode())
    push_rest(folder, away(), "node-0")
    assert len(faults_of(store, "before")) == 1, "once"


def test_what_an_endpoint_did_not_take_is_sent_again(tmp_path):
    folder, story = told("before", str(tmp_path / "store"), ranks=1, cores=1, steps=60, samples=120)
    start, end = story.manifest["start"], story.manifest["end"]
    with collecting() as collector:
        collector.answers = [400]
        push = Push(folder, address(collector.url), sent_until=start)
        assert not push.send(end)
        assert push.sent_until == start
        assert push.why == "HTTP 400"
        assert push.send(end)
        assert push.sent_until == end
        before = len(collector.requests)
        assert push.send(end)
        assert len(collector.requests) == before, "nothing is sent twice"
    counts = [p["value"] for p in collector.points() if p["name"] == "holter_steps_total"]
    assert counts[-1] == 60


def test_only_the_last_hour_is_sent_again(tmp_path):
    folder, story = told("before", str(tmp_path / "store"), ranks=1, cores=1, steps=30, samples=60)
    now = story.manifest["end"]
    with collecting() as collector:
        assert Push(folder, address(collector.url), sent_until=now - 5 * 3600 * 10**9).send(now)
    times = [point["time"] for point in collector.points()]
    assert now - 3600 * 10**9 <= min(times)
    assert max(times) == now - 1


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("localhost:4318", "is no address"),
        ("ftp://x", "is no address"),
        ("http://me:word@host:4318", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("http://host/?key=1", "OTEL_EXPORTER_OTLP_HEADERS"),
    ],
)
def test_an_endpoint_that_is_none_is_refused_before_anything_starts(
    given, part, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--otlp", given, "--", "true"]) == 64
    said = capsys.readouterr().err
    assert part in said
    assert "word" not in said
    assert not list(tmp_path.iterdir())


def test_addresses_as_the_variables_mean_them(monkeypatch):
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    assert address("") == "http://localhost:4318/v1/metrics"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1/base/")
    assert address("") == "http://a:1/base/v1/metrics"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://me:word@b:2/own?key=1")
    assert address("") == "http://me:word@b:2/own?key=1"
    assert shown(address("")) == "http://b:2/own"
    assert address("https://c/v1/metrics") == address("https://c") == "https://c/v1/metrics"


def test_a_job_that_is_over_as_otlp_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _, story = told("before", ranks=1, cores=1, steps=120, samples=400)
    assert main(["export", "before", "--format", "otlp"]) == 0
    lines = (tmp_path / "before.otlp.jsonl").read_text().splitlines()
    requests = [Parse(line, ExportMetricsServiceRequest()) for line in lines]
    seconds = (story.manifest["end"] - story.manifest["start"]) / 1e9
    assert len(requests) == -(-seconds // 60)
    counts = [p["value"] for one in requests for p in points(one) if p["name"] == "holter_steps_total"]
    assert counts[-1] == 120
    assert main(["export", "before", "--format", "otlp", "--rank", "0", "--force"]) == 65
    assert "--rank chooses nothing" in capsys.readouterr().err


def test_without_the_client_it_is_said_what_to_install(tmp_path):
    hidden = tmp_path / "hidden.py"
    hidden.write_text(
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "from holter.cli import main\n"
        "raise SystemExit(main(sys.argv[1:]))\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, str(hidden), "run", "--otlp", "--", "true"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 64
    assert "pip install 'holter[otlp]'" in done.stderr


def test_an_issue_is_sent_when_it_is_found_and_when_it_is_over(tmp_path):
    folder, _ = told("before", str(tmp_path / "store"), steps=20, samples=20)
    issue = {
        "code": "slow", "summary": "it is slow", "severity": "warning", "status": "open", "node": "node-0",
        "rank": 1, "time_start": 5_000_000_000, "last_found": 7_000_000_000, "count": 3, "advice": "do less",
    }  # fmt: skip
    folder.write_evaluations({"rules": [{"name": "Mine", "status": "IssuesFound", "issues": [issue]}]})
    with collecting() as collector:
        push = IssuePush(folder, logs_address(address(collector.url)))
        assert push.send()
        assert push.send()
        (got,) = collector.issues()
        assert (got["body"], got["severity"], got["time"]) == ("it is slow", 13, 5_000_000_000)
        assert (got["rule"], got["rank"], got["count"], got["advice"]) == ("Mine", 1, 3, "do less")
        over = {**issue, "status": "resolved", "resolved": 9_000_000_000, "count": 4}
        folder.write_evaluations({"rules": [{"name": "Mine", "status": "IssuesFound", "issues": [over]}]})
        again = IssuePush(folder, logs_address(address(collector.url)), sent=push.sent)
        assert again.send()
        assert [(one["status"], one["time"]) for one in collector.issues()][1:] == [
            ("resolved", 9_000_000_000)
        ]
        collector.logs_answer = 404
        refused = IssuePush(folder, logs_address(address(collector.url)))
        assert not refused.send()
        assert not refused.sent
