"""Damaged documents of a job: every command and page answers, and names what it cannot read."""

from __future__ import annotations

import contextlib
import io
import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cli.conftest import job, told
from tests.dashboard.asking import ask

from holter.cli import main
from holter.dashboard.server import application
from holter.evaluation import evaluate
from holter.store.job import JobFolder


class _Gone:
    def __repr__(self) -> str:
        return "GONE"


GONE = _Gone()
COMMANDS = (
    ("jobs",),
    ("jobs", "--json"),
    ("describe", "after"),
    ("diagnose", "after", "--json"),
    ("rules", "run", "after"),
    ("compare", "before", "after"),
    ("check", "after", "before"),
    ("report", "after", "-o", "report.html", "--force"),
    ("report", "after", "-o", "report.ipynb", "--force"),
    ("export", "after", "--format", "json", "-o", "after.json", "--force"),
)
PAGES = (
    *("/", "/metrics", "/api/v1/jobs", "/api/v1/jobs/after", "/api/v1/jobs/after/issues"),
    *(
        f"/jobs/after{page}"
        for page in ("", "/nodes", "/insights", "/settings", "/timeline", "/data-loading")
    ),
    *(f"/api/v1/jobs/after/figures/{name}" for name in ("step_times", "job_phases", "utilization")),
    *("/api/v1/jobs/after/heatmap", "/api/v1/jobs/after/timeline", "/api/v1/jobs/after/clock"),
)


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> dict[Path, dict]:
    """Two jobs, the second with all that a manifest can hold; returns its documents."""
    store = tmp_path_factory.mktemp("documents") / "holter-jobs"
    told("before", str(store), ranks=1, cores=1, steps=30, samples=30)
    folder, _ = told("after", str(store), ranks=1, cores=1, steps=30, samples=30)
    framework = {"name": "pytorch", "version": "2.0", "device": "cpu"}
    failure = {
        "kind": "exception",
        "step": 3,
        "phase": "forward",
        "exception": "E: x",
        "rank": 0,
        "signal": None,
    }
    rules = [{"name": "StepOutlier", "rule": "StepOutlier", "parameters": {}}]
    recorded = {"code": {"revision": "a"}, "packages": {"torch": "2"}, "settings": {}}
    verdict = {"suspect": "compute", "sentence": "No bottleneck found.", "headline": None}
    folder.update(
        launch={"id": "x", "nodes": 1}, framework=framework, failure=failure, rules=rules, recorded=recorded,
        verdict=verdict, price=3.0, total_steps=100, tags={"a": "b"}, stopped_by={"rule": "x", "reason": "y"},
    )  # fmt: skip
    folder.order(interval_ms=500, monitoring=True)
    evaluate(folder, record=True)
    judged = folder.evaluations()
    issue = {
        "rule": "StepOutlier",
        "summary": "slow",
        "severity": "warning",
        "code": "",
        "node": None,
        "rank": 0,
    }
    issue |= {"step_start": 1, "step_end": 2, "time_start": judged["updated"], "time_end": judged["updated"]}
    issue |= {"evidence": {"lost_ms": 1.0}, "advice": "a", "count": 1, "status": "open", "resolved": None}
    judged["rules"][0] |= {"status": "IssuesFound", "issues": [issue]}
    folder.write_evaluations(judged)
    files = [
        path for path in Path(folder.url).rglob("*.json") if "=" not in str(path.relative_to(folder.url))
    ]
    return {path: json.loads(path.read_text()) for path in files}


def _places(document, base=()):
    if isinstance(document, dict | list):
        inside = document.items() if isinstance(document, dict) else enumerate(document[:1])
        for key, value in inside:
            yield (*base, key)
            yield from _places(value, (*base, key))


def _put(document, place, value):
    changed = json.loads(json.dumps(document))
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    if value is GONE:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return changed


def _run(*words):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        return main(list(words)), out.getvalue(), err.getvalue()


def _values():
    odd = [
        GONE,
        None,
        "x",
        "",
        -1,
        0,
        1,
        2**62,
        2**63 - 1,
        2**63,
        2**70,
        1e308,
        -1e308,
        math.nan,
        math.inf,
        1.5,
    ]
    odd += [
        True,
        [],
        {},
        [1],
        [None],
        {"a": 1},
        {"name": 1},
        [[["x"]]],
        "\ud800",
        "<b>",
        "\x1b[31m",
        "a" * 5000,
    ]
    deep = "x"
    for _ in range(300):
        deep = [deep]
    return st.sampled_from([*odd, deep]) | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=4,
    )


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_a_document_holds_every_command_and_page_answers(documents, monkeypatch, data):
    path = data.draw(st.sampled_from(sorted(documents)))
    place = data.draw(st.sampled_from(list(_places(documents[path]))))
    value = data.draw(_values())
    commands = data.draw(st.lists(st.sampled_from(COMMANDS), min_size=2, max_size=2, unique=True))
    pages = data.draw(st.lists(st.sampled_from(PAGES), min_size=4, max_size=4, unique=True))
    job_folder = next(one for one in documents if one.name == "job.json").parent
    monkeypatch.chdir(job_folder.parent.parent)
    path.write_text(json.dumps(_put(documents[path], place, value)))
    try:
        for command in commands:
            code, _, said = _run(*command)  # a fault is raised here
            assert code in (0, 1, 3, 65), (command, said)
        app = application([str(job_folder.parent)], "secret-token")
        for page in pages:
            address, _, query = page.partition("?")
            answer = ask(app, address, query.encode())
            assert answer.status < 500, (page, answer.body[:300])
    finally:
        path.write_text(json.dumps(documents[path]))


BROKEN = {
    "start that is a text": {"start": "x"},
    "end that is a text": {"end": "x"},
    "status that is a list": {"status": ["x"]},
    "created that is an object": {"created": {}},
    "start that is infinite": {"start": math.inf},
    "end before its start": {"end": 1},
}


@pytest.mark.parametrize("what", [*BROKEN, "no manifest", "half a manifest", "a folder for a manifest"])
def test_a_job_that_cannot_be_read_is_one_row_that_says_why(what, holter, tmp_path):
    job("fine")
    bad = job("bad")
    manifest = tmp_path / "holter-jobs/bad/job.json"
    if what in BROKEN:
        bad.update(**BROKEN[what])
        why = f"job.json has {next(iter(BROKEN[what]))} "
    else:
        text = manifest.read_text()
        manifest.unlink()
        why = "job.json "
        if what == "half a manifest":
            manifest.write_text(text[:40])
        elif what.startswith("a folder"):
            manifest.mkdir()
    listed = holter("jobs", "--json")
    assert listed.code == 0
    rows = {row["name"]: row for row in json.loads(listed.out)["jobs"]}
    assert set(rows) == {"fine", "bad"}
    assert rows["fine"]["fault"] is None
    assert rows["bad"]["fault"].startswith(why)
    assert why.split()[0] in holter("jobs").out
    app = application([str(tmp_path / "holter-jobs")], "secret-token")
    found = {row["name"]: row for row in json.loads(ask(app, "/api/v1/jobs").body)["jobs"]}
    assert found["bad"]["fault"].startswith(why)
    page = ask(app, "/").body.decode()
    assert "job.json" in page
    assert ">fine<" in page
    metrics = ask(app, "/metrics")
    assert metrics.status == 200
    assert 'holter_jobs{status="Completed"}' in metrics.body.decode()
    for words in (("describe", "bad"), ("report", "bad"), ("compare", "fine", "bad")):
        answer = holter(*words)
        assert answer.code in (0, 65)
        if words[0] == "report" and answer.code == 0:
            assert "job.json" in (tmp_path / "bad.html").read_text()
        else:
            assert "job.json" in answer.out + answer.err


def test_every_outlet_names_a_table_that_cannot_be_read(holter, tmp_path):
    told("before", ranks=1, cores=1, steps=30, samples=30)
    folder, _ = told("after", ranks=1, cores=1, steps=30, samples=30)
    damaged = sorted(Path(folder.url).rglob("*.parquet"))
    for path in damaged:
        path.write_bytes(path.read_bytes()[:50])
    name = str(damaged[0].relative_to(folder.url))
    for words in (("check", "before", "after"), ("check", "before", "after", "--json")):
        answer = holter(*words)
        assert answer.code == 3
        assert f"{len(damaged)} files of after cannot be read" in answer.out
        assert "holter run --" not in answer.out
    for words in (("compare", "before", "after"), ("compare", "before", "after", "--format", "md")):
        assert f"{len(damaged)} files of after cannot be read" in " ".join(holter(*words).out.split())
    compared = json.loads(holter("compare", "before", "after", "--json").out)
    assert name in [file["file"] for file in compared["jobs"][1]["skipped"]]
    for ending in ("html", "ipynb"):
        assert holter("report", "after", "-o", f"r.{ending}").code == 0
        assert name in (tmp_path / f"r.{ending}").read_text().replace("\\", "")
    for words in (
        ("check", "before", "after"),
        ("compare", "before", "after"),
        ("compare", "before", "after", "--format", "md"),
    ):
        answer = holter(*words, "--tensors")
        assert answer.code == (3 if words[0] == "check" else 0)
        assert " ".join(answer.out.split()).count("of after cannot be read: ") == 1
    app = application([str(tmp_path / "holter-jobs")], "secret-token")
    page = ask(app, "/compare", b"job=0/before&job=0/after").body.decode()
    assert f"{len(damaged)} files of after cannot be read" in page


def test_metrics_count_the_jobs_that_cannot_be_read(tmp_path):
    job("running", status="InProgress", age_s=1)
    job("bad").update(start="x")
    text = ask(application([str(tmp_path / "holter-jobs")], "secret-token"), "/metrics").body.decode()
    assert 'holter_jobs{status="Unreadable"} 1' in text


def test_a_fault_names_the_value_and_one_bad_element_costs_only_itself(tmp_path):
    folder = job("one", str(tmp_path / "store"))
    folder.update(rules=[{"name": "StepOutlier", "parameters": {}}, {"name": 3}], exit_code="y" * 1000)
    read = JobFolder(folder.place, "one")
    manifest = read.manifest()
    assert manifest["rules"] == [{"name": "StepOutlier", "parameters": {}}]
    assert "exit_code" not in manifest
    assert len(read.faults) == 2
    assert all(len(fault) < 300 for fault in read.faults)
    assert "Expected `str`, got `int`" in " ".join(read.faults)


def test_progress_of_rules_that_is_damaged_starts_over(tmp_path):
    folder, _ = told("after", str(tmp_path / "store"), ranks=1, cores=1, steps=30, samples=30)
    sound = evaluate(folder, [{"name": "StepOutlier", "parameters": {}}], record=True)
    document = folder.evaluations()
    for place in ("version", "judged", "facts", "rules"):
        for value in ("x", math.nan, [], -1, 2**70):
            folder.write_evaluations({**document, "progress": {**document["progress"], place: value}})
            again = evaluate(folder, [{"name": "StepOutlier", "parameters": {}}], record=True)
            assert [rule["status"] for rule in again.rules] == [rule["status"] for rule in sound.rules]


def test_names_of_a_manifest_are_shown_and_never_read_as_html(tmp_path):
    job("one", str(tmp_path / "store")).update(status="<script>alert(1)</script>")
    app = application([str(tmp_path / "store")], "secret-token")
    for page in ("/", "/jobs/one", "/api/v1/jobs/one/report"):
        assert "<script>alert" not in ask(app, page).body.decode()
