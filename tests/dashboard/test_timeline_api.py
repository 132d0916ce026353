"""The timeline and the heat map as programs ask for them: the tables' numbers, and bounds on everything."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import numpy as np
import pytest
from benchmarks.generated_trace import STEP_NS, write
from tests.cli.conftest import job, told
from tests.dashboard.serving import BEARER

from holter.importers.importing import import_job
from holter.store.job import at
from holter.store.trial import Trial
from holter.views.timeline.packing import COLUMNS

KERNELS = 20_000


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked") / "store"
    write(str(folder), "trace", KERNELS, ranks=1)
    told("before", str(folder), ranks=2, cores=2, steps=50, samples=100)
    job("empty", str(folder))
    return folder


@pytest.fixture(scope="module")
def ask(server):
    def asked(path, of="trace", **query):
        status, text, _ = server.ask(f"/api/v1/jobs/{of}/timeline{path}?{urlencode(query)}", **BEARER)
        return status, json.loads(text)

    return asked


@pytest.fixture(scope="module")
def tiles(server):
    def asked(of="trace", **query):
        connection = server.connection()
        connection.request("GET", f"/api/v1/jobs/{of}/timeline/tiles?{urlencode(query)}", headers=BEARER)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.status == 200, body
        length = int.from_bytes(body[:4], "little")
        head = json.loads(body[4 : 4 + length])
        count, at, columns = sum(lane[2] for lane in head["lanes"]), 4 + length, {}
        for name, dtype in COLUMNS:
            columns[name] = np.frombuffer(body, dtype, count, at)
            at += count * np.dtype(dtype).itemsize
        assert at == len(body)
        return head, columns

    return asked


def lanes_of(entries):
    for entry in entries:
        if "lane" in entry:
            yield entry
        yield from lanes_of(entry.get("children", []))


def test_the_tree_names_lanes_and_series_by_number(ask):
    status, head = ask("")
    assert status == 200
    lanes = list(lanes_of(head["tree"]))
    assert sorted(entry["lane"] for entry in lanes) == list(range(len(lanes)))
    assert head["events"] == sum(entry["events"] for entry in lanes)
    assert head["to_ns"] > 0
    assert '"series":0' in json.dumps(head["tree"], separators=(",", ":"))


def test_tiles_hold_what_the_tables_hold(ask, tiles, store):
    _, head = ask("")
    stream = next(entry for entry in lanes_of(head["tree"]) if entry["kind"] == "stream")
    origin = int(head["origin_ns"])
    told_of, columns = tiles(from_ns=0, to_ns=STEP_NS, pixels=4000, lanes=stream["lane"])
    assert told_of["version"] == head["version"]
    ((number, level, rows),) = told_of["lanes"]
    assert (number, level) == (stream["lane"], -1)
    trial = Trial(at(str(store / "trace")))
    kernels = trial.table("kernels", where="stream = 7", end_ns=origin + STEP_NS)
    operations = trial.table("memory_operations", where="stream = 7", end_ns=origin + STEP_NS)
    assert rows == kernels.rows + operations.rows
    begins = np.sort(np.concatenate([kernels["time"], operations["time"]]) - origin)
    assert np.array_equal(np.sort(columns["time"]).astype(np.int64), begins)
    names = {told_of["names"][str(code)] for code in columns["name"].tolist()}
    assert names == {*kernels["name"].tolist(), *operations["kind"].tolist()}


def test_an_area_sums_the_events_that_reach_into_it(ask, store):
    _, head = ask("")
    stream = next(entry for entry in lanes_of(head["tree"]) if entry["kind"] == "stream")
    origin = int(head["origin_ns"])
    asked = {"version": head["version"], "lanes": stream["lane"], "limit": 100}
    middle = STEP_NS // 2
    status, answer = ask("/area", **asked, from_ns=0, to_ns=middle)
    assert status == 200
    kernels = Trial(at(str(store / "trace"))).table("kernels", where="stream = 7")
    begin, end = kernels["time"] - origin, kernels["time"] + kernels["duration"] - origin
    inside = (begin < middle) & (end > 0)
    entry = max((one for one in answer["entries"] if one["kind"] == "stream"), key=lambda one: one["count"])
    mine = inside & (kernels["name"] == entry["whole_name"])
    assert entry["count"] == mine.sum()
    assert entry["total_ns"] == (np.minimum(end, middle) - np.maximum(begin, 0))[mine].sum()
    assert entry["mean_ns"] == pytest.approx(kernels["duration"][mine].mean())
    totals = [one["total_ns"] for one in answer["entries"]]
    assert totals == sorted(totals, reverse=True)
    assert answer["entries_in_all"] == len(totals)
    assert ask("/area", **{**asked, "version": "0"}, from_ns=0, to_ns=1)[0] == 409


def test_a_trace_for_perfetto_is_of_the_window(server):
    def size(query):
        connection = server.connection()
        connection.request("GET", f"/api/v1/jobs/trace/trace{query}", headers=BEARER)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.status == 200, body
        assert ".perfetto-trace" in answer.headers["content-disposition"]
        return len(body)

    assert 0 < size(f"?from=0&to={STEP_NS / 2e9}") < size("")
    status, text, _ = server.ask("/api/v1/jobs/empty/trace", **BEARER)
    assert (status, "nothing to show" in text) == (404, True)


def test_an_event_is_found_told_and_followed(ask, tiles):
    _, head = ask("")
    status, answer = ask("/search", text="SGEMM_32x", limit=5)
    assert status == 200
    (found,) = answer["found"]
    query = {"version": head["version"], "names": found["code"]}
    _, answer = ask("/following", **query, after_ns=-1)
    first = answer["event"]
    assert first["name"] == found["name"]
    _, answer = ask("/following", **query, after_ns=first["time"])
    second = answer["event"]
    assert second["time"] > first["time"]
    _, answer = ask("/following", **query, after_ns=second["time"], backward=1)
    assert answer["event"] == first
    asked = {"lane": first["lane"], "time_ns": first["time"], "duration_ns": first["duration"]}
    _, told_of = ask("/event", version=head["version"], **asked, name=first["code"])
    assert told_of["row"]["table"] == "kernels"
    assert [(one["kind"], one["earlier"], one["name"]) for one in told_of["connections"]] == [
        ("launch", True, "cudaLaunchKernel")
    ]
    status, answer = ask("/event", version=head["version"], **{**asked, "time_ns": 3}, name=first["code"])
    assert (status, "no event" in answer["error"]) == (404, True)


def test_traces_years_apart_are_one_timeline(ask, tiles, tmp_path, store):
    """A browser knows such times to 256 ns: an event is found by them, and the next is not the same again."""
    times_us = (0, 1_600_000_000_000_007, 1_600_000_000_001_001)
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at, "dur": 7}
        for at in times_us
    ]
    path = tmp_path / "years.json"
    path.write_text(json.dumps({"traceEvents": events}))
    import_job([path], str(store), "years", now_ns=0)
    _, head = ask("", of="years")
    wide = {"from_ns": -(1 << 60), "to_ns": 1 << 61}
    assert ask("/steps", of="years", **wide, most=6) == (200, {"schema": 1, "steps": []})
    _, columns = tiles(of="years", **wide, pixels=1024, lanes=0)
    assert columns["count"].sum() == len(times_us)
    query = {"of": "years", "version": head["version"], "names": 0}
    _, answer = ask("/following", **query, after_ns=int(float(times_us[1] * 1000)))
    last = answer["event"]
    assert last["time"] + int(head["origin_ns"]) == times_us[2] * 1000
    shown = {"lane": last["lane"], "time_ns": int(float(last["time"])), "duration_ns": last["duration"]}
    status, told_of = ask("/event", of="years", version=head["version"], **shown, name=0)
    assert (status, told_of["row"]["time"]) == (200, str(times_us[2] * 1000))
    status, answer = ask("/steps", of="years", from_ns=0, to_ns=1 << 63, most=6)
    assert (status, "valid" in answer["error"]) == (400, True)


def test_steps_are_thinned_to_round_ones(ask):
    _, head = ask("", of="before")
    window = {"from_ns": 0, "to_ns": head["to_ns"]}
    _, every = ask("/steps", of="before", **window, most=1000)
    _, few = ask("/steps", of="before", **window, most=6)
    assert len(every["steps"]) >= 49
    assert len(few["steps"]) <= 6
    assert all(one in every["steps"] and one["step"] % 10 == 0 for one in few["steps"])


def test_curves_of_the_machine(ask):
    _, head = ask("", of="before")
    system = next(entry for entry in head["tree"][0]["children"] if entry["kind"] == "metrics")
    metric = system["children"][0]
    window = {"from_ns": 0, "to_ns": head["to_ns"], "pixels": 50}
    _, answer = ask("/curves", of="before", **window, series=metric["series"])
    (curve,) = answer["curves"]
    assert (metric["name"], metric["unit"]) == ("cpu.util", "%")
    assert 0 < len(curve["time"]) <= 51
    assert all(
        low <= mean <= high
        for low, mean, high in zip(curve["low"], curve["mean"], curve["high"], strict=True)
    )


@pytest.mark.parametrize(
    ("path", "query", "says"),
    [
        ("/tiles", {"from_ns": 5, "to_ns": 5, "pixels": 10, "lanes": 0}, "no range of time"),
        ("/tiles", {"from_ns": "nan", "to_ns": 5, "pixels": 10, "lanes": 0}, "from_ns is 'nan'"),
        ("/tiles", {"from_ns": 0, "to_ns": 10**40, "pixels": 10, "lanes": 0}, "to_ns is"),
        ("/tiles", {"from_ns": 0, "to_ns": 5, "pixels": 10**6, "lanes": 0}, "pixels is '1000000'; valid"),
        ("/tiles", {"from_ns": 0, "to_ns": 5, "pixels": 10, "lanes": "0-999999999"}, "lanes is"),
        ("/tiles", {"from_ns": 0, "to_ns": 5, "pixels": 10, "lanes": ""}, "lanes is ''"),
        ("/tiles", {"from_ns": 0, "to_ns": 5, "pixels": 10, "lanes": ",".join("0" * 129)}, "too many"),
        ("/tiles", {"from_ns": 0, "to_ns": 5, "pixels": "²", "lanes": 0}, "pixels is '²'"),
        ("/curves", {"from_ns": 0, "to_ns": 5, "pixels": 10, "series": 99}, "series is '99'"),
        ("/steps", {"from_ns": 0, "to_ns": 5, "most": 0}, "most is '0'"),
        ("/event", {"version": "old"}, "the job has grown"),
        ("/search", {"text": "", "limit": 5}, "text has 0 letters"),
        ("/search", {"text": "x" * 201, "limit": 5}, "text has 201 letters"),
        ("/search", {"text": "x", "limit": 5000}, "limit is '5000'"),
        ("/following", {"version": "old"}, "the job has grown"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words(ask, path, query, says):
    status, answer = ask(path, **query)
    assert status in (400, 409)
    assert says in answer["error"]


def test_a_job_without_events_and_one_that_is_not_there(ask, server):
    status, head = ask("", of="empty")
    assert (status, head["events"], head["tree"]) == (200, 0, [])
    status, answer = ask("", of="none")
    assert status == 404
    assert "none" in answer["error"]
    status, text, _ = server.get("/jobs/empty/timeline")
    assert status == 200
    assert "holter profile" in text


def test_a_heat_map_has_bounds(server):
    for query, says in (
        ("width=0", "width is"),
        ("from=3&to=2", "no time window"),
        ("width=99999", "width is"),
    ):
        status, answer = server.json(f"/api/v1/jobs/before/heatmap?{query}")
        assert status == 400
        assert says in answer["error"]
