"""The description of a job: true to its tables, its schema, and itself, however much of a job there is."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from tests.cli.conftest import told
from tests.dashboard.made import trace
from tests.views.windows import window

import holter.views
from holter.analysis.steps.steps import steps as build_steps
from holter.cli.trace_sections import trace_sections
from holter.importers.importing import import_job
from holter.schema.table import Table
from holter.store.job import at, create
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views import tables
from holter.views.document.cost import cost
from holter.views.document.description import describe, diagnosis
from holter.views.document.types import __main__ as schema_of_types

PUBLISHED = json.loads(Path(holter.views.__file__).with_name("description.schema.json").read_text())


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return str(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def before(store):
    return told("before", store, ranks=2, cores=8)


def test_the_published_schema_is_a_schema_and_refuses_what_is_wrong(before):
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)
    document = describe(Trial(before[0]))
    jsonschema.validate(document, PUBLISHED)
    for path, wrong in (
        (("job", "status"), "Running"),
        (("verdict", "suspect"), "bad luck"),
        (("breakdown", "forward"), 120.0),
        (("steps", "count"), 0),
    ):
        broken = json.loads(json.dumps(document))
        broken[path[0]][path[1]] = wrong
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, PUBLISHED)


def test_the_published_schema_is_that_of_the_types():
    path = Path(holter.views.__file__).with_name("description.schema.json")
    made = schema_of_types.text()
    assert path.read_text() == made, f"run: python -m holter.views.document.types > {path.name}"


def closed(schema):
    """Return a schema that refuses keys without a type."""
    if isinstance(schema, dict):
        more = {"additionalProperties": False} if "properties" in schema else {}
        return {key: closed(value) for key, value in schema.items()} | more
    return [closed(one) for one in schema] if isinstance(schema, list) else schema


def test_every_key_of_a_document_has_a_type(before, tmp_path):
    folder, _ = told("model", str(tmp_path), ranks=1, cores=8)
    folder.write_node("node-0", {**folder.node("node-0"), "gpus": GPUS})
    window(folder, device="cuda")
    for trial in (Trial(before[0]), Trial(folder)):
        jsonschema.validate(describe(trial, price=3.0, in_detail=True), closed(PUBLISHED))
    with pytest.raises(jsonschema.ValidationError, match="moon"):
        jsonschema.validate({**describe(Trial(folder)), "moon": 1}, closed(PUBLISHED))


def test_the_worked_case(before):
    document = describe(Trial(before[0]))
    assert document["verdict"]["suspect"] == "data_pipeline"
    assert sum(document["breakdown"].values()) == pytest.approx(100, abs=0.5)
    assert document["breakdown"]["data_loading"] == pytest.approx(60, abs=1)
    stages = document["dataloading"]["stages"]
    assert sum(stages.values()) == pytest.approx(document["breakdown"]["data_loading"], abs=0.5)
    assert stages["transform"] == pytest.approx(28, abs=2)
    assert document["ranks"] == [0, 1]
    assert document["steps"]["count"] == 500
    assert document["looked_at_pct"] == 100
    phases = document["phases"]
    shares = [phases[f"{name}_pct"] for name in ("initialization", "training_loop", "finalization")]
    assert sum(shares) == pytest.approx(100)


def test_diagnosis_is_the_verdict_and_the_breakdown(before):
    document = describe(Trial(before[0]))
    told_ = diagnosis(document)
    assert told_["verdict"] == document["verdict"]
    assert told_["breakdown"] == document["breakdown"]
    assert told_["job"]["name"] == "before"


def test_a_long_job_looked_at_in_stretches_says_the_same(before, monkeypatch):
    whole = describe(Trial(before[0]))
    monkeypatch.setattr(tables, "MOST_ROWS", 6_000)
    parts = describe(Trial(before[0]))
    assert parts["looked_at_pct"] < 50
    jsonschema.validate(parts, PUBLISHED)
    assert parts["breakdown"] == whole["breakdown"]
    assert parts["steps"] == whole["steps"]
    assert parts["verdict"]["suspect"] == whole["verdict"]["suspect"]
    assert parts["dataloading"]["stages"]["transform"] == pytest.approx(28, abs=3)
    for one, all_ in zip(parts["utilization"], whole["utilization"], strict=True):
        assert [one[key] for key in ("node", "metric", "device", "count", "min", "max")] == [
            all_[key] for key in ("node", "metric", "device", "count", "min", "max")
        ]
        assert one["p50"] == pytest.approx(all_["p50"], rel=0.1, abs=2)


def test_steps_that_are_known_are_followed_and_a_late_rank_is_not_missed(tmp_path):
    _, story = told("before", str(tmp_path), ranks=2, cores=2)
    followed = create(str(tmp_path), "followed", command=[], interval_ms=1000, rules=[], now_ns=1)
    writer = Writer(followed, "node-0")
    trial, known = Trial(followed), None
    spans = Table({name: column for name, column in story.spans.columns.items() if name != "node"})
    middle = int(np.median(spans["time"]))
    early, first = spans["time"] < middle, spans["rank"] == 0
    late = spans["time"] > np.quantile(spans["time"], 0.8)
    # The first rank's, then all that the second one did meanwhile and since; then each one's newest.
    for part in (early & first, ~early & ~late | early & ~first, late & first, late & ~first):
        writer.append("spans", spans.where(part).columns)
        writer.flush()
        known = tables.steps_of(trial, known)
        expected = tables.steps_of(trial).sorted("rank", "step")
        found = known.sorted("rank", "step")
        for column in ("rank", "step", "time", "duration"):
            assert found[column].tolist() == expected[column].tolist()
    writer.close()


def test_steps_that_are_stored_are_continued_from_spans(store, before):
    folder, story = told("after", store, ranks=2, cores=4)
    everything = build_steps(story.spans)
    writer = Writer(folder, "node-0")
    early = everything.where(everything["step"] < everything["step"].min() + 100)
    writer.append("steps", early.columns)
    writer.close()
    steps = tables.steps_of(Trial(folder)).sorted("rank", "step")
    expected = everything.sorted("rank", "step")
    assert steps["step"].tolist() == expected["step"].tolist()
    np.testing.assert_allclose(steps["forward"], expected["forward"], atol=200)


def test_cost_is_what_the_nodes_say(store):
    folder, _ = told("mixed", store, ranks=1, cores=4)
    trial = Trial(folder)
    read = trial.table("events"), tables.steps_of(trial), trial.table("samples")
    unknown = cost(trial, *read)
    assert unknown["recorder_pct"] is None
    loop = int(read[1]["duration"].sum())
    kept = {"recorder_ns": loop // 100, "agent_cpu_s": 3.0, "duration_s": 100.0, "dropped": 7}
    folder.write_node("node-0", {**folder.node("node-0"), "cost": kept})
    known = cost(Trial(folder), *read)
    assert known["recorder_pct"] == pytest.approx(1.0, rel=0.01)
    assert known["agent_cpu_pct"] == pytest.approx(3.0)
    assert known["dropped"] == 7
    assert known["bytes"] == sum(
        file.stat().st_size for file in Path(folder.url).rglob("*") if file.is_file()
    )
    drops = [{"frames": 3, "saves": 1}, {"files": 2}, {"files": 5}]
    columns = {"time": [1, 2, 3], "rank": [0, -1, -1], "kind": ["dropped"] * 3, "name": ["tensors"] * 3}
    writer = Writer(folder, "node-0")
    writer.append("events", {**columns, "detail": [json.dumps(drop) for drop in drops]})
    writer.close()
    lost = Trial(folder).table("events")
    assert cost(Trial(folder), lost, *read[1:])["dropped"] == 7 + 3 + 1 + 5
    assert known["bytes_per_step"] == pytest.approx(known["bytes"] / 500)


def test_numbers_without_a_value_are_absent_never_0(store):
    folder, _ = told("model", store, ranks=1, cores=2)
    text = json.dumps(describe(Trial(folder)), allow_nan=False)
    assert "NaN" not in text


def test_the_newest_profiled_steps_are_told(tmp_path):
    folder, _ = told("after", str(tmp_path), ranks=1, cores=8)
    steps = build_steps(Trial(folder).table("spans"))
    rows = {"time": [], "duration": [], "rank": [], "step": [], "name": [], "kind": [], "thread": []}
    for number in (0, 7, 8, 9):  # two windows; the newest are three steps in a row
        for name, part in (("aten::addmm", 0.5), ("aten::relu", 0.25)):
            begin, length = int(steps["time"][number]), int(steps["duration"][number])
            at = begin if name == "aten::addmm" else begin + int(0.6 * length)
            row = (at, int(part * length), 0, int(steps["step"][number]), name, "operator", 1)
            for column, value in zip(rows, row, strict=True):
                rows[column].append(value)
    writer = Writer(folder, "node-0")
    writer.append("operators", rows)
    writer.close()
    document = describe(Trial(folder))
    jsonschema.validate(document, PUBLISHED)
    first, last = (int(steps["step"][number]) for number in (7, 9))
    assert (document["window"]["step_start"], document["window"]["step_end"]) == (first, last)
    assert document["window"]["breakdown"] is None
    shares = {one["name"]: one["pct"] for one in document["operators"]["cpu"]}
    assert shares == {"aten::addmm": pytest.approx(50, abs=0.1), "aten::relu": pytest.approx(25, abs=0.1)}
    assert document["operators"]["gpu"] == []
    said = document["verdict"]["evidence"][-1]["text"]
    assert said.startswith(f"top operators of the host in steps {first} to {last}: ")
    assert diagnosis(document)["operators"] == document["operators"]


GPUS = [{"name": "NVIDIA H100 80GB HBM3", "memory_bytes": 85 << 30}]


def test_the_events_of_the_newest_profiled_steps_are_told_in_detail(tmp_path):
    folder, _ = told("model", str(tmp_path), ranks=1, cores=8)
    folder.write_node("node-0", {**folder.node("node-0"), "gpus": GPUS})
    first, last = window(folder, device="cuda")
    plain, full = describe(Trial(folder)), diagnosis(describe(Trial(folder), in_detail=True))
    assert not plain["window"].keys() & {"devices", "mfu", "detail"}
    told_of = full["window"]
    jsonschema.validate({**plain, "window": told_of}, PUBLISHED)
    assert (told_of["step_start"], told_of["step_end"]) == (first, last)
    assert told_of["devices"] == ["NVIDIA H100 80GB HBM3"]
    detail = told_of["detail"]
    (row,) = detail["roofline"]
    flops = 2 * 128 * 256 * 512
    assert (row["calls"], row["flops"], row["device_ns"], row["side"]) == (3, 3 * flops, 300_000, "device")
    assert row["peak_pct"] == pytest.approx(100 * flops / (989e12 * 100e-6))
    assert row["bound"] == "memory"
    assert detail["launches"]["count"] == 3
    assert [queue["longest"] for queue in detail["queues"]] == [1]
    assert detail["hta_critical_path"] is not None
    possible = 989e12 * told_of["step_ms"] / 1e3  # as a step is without a profiler
    assert told_of["mfu"]["pct"] == pytest.approx(100 * flops / possible)
    assert told_of["step_ms"] <= plain["steps"]["max_ms"]


def test_on_a_cpu_no_accelerator_is_spoken_of(tmp_path):
    folder, _ = told("model", str(tmp_path), ranks=1, cores=8)
    folder.write_node("node-0", {**folder.node("node-0"), "gpus": GPUS})
    window(folder, device="cpu")
    description = describe(Trial(folder), in_detail=True)
    jsonschema.validate(description, PUBLISHED)
    seen = description["window"]
    assert (seen["devices"], seen["mfu"]) == ([], None)
    (row,) = seen["detail"]["roofline"]
    assert (row["side"], row["host_ns"], row["peak_pct"], row["bound"]) == ("host", 6_000_000, None, "")
    assert row["tflops"] == pytest.approx(2 * 128 * 256 * 512 / 2e-3 / 1e12)
    told_of = "\n".join(line for _, lines in trace_sections(seen) for line in lines)
    assert "aten::mm: 3 x 33.6 MFLOP, 6 ms, 16.8 GFLOP/s" in told_of
    assert "accelerator" not in told_of


def test_of_a_job_that_was_over_at_once_the_agents_share_is_not_told(tmp_path):
    folder, _ = told("mixed", str(tmp_path / "store"), ranks=1, cores=4)
    folder.write_node("node-0", {**folder.node("node-0"), "cost": {"agent_cpu_s": 0.7, "duration_s": 0.01}})
    trial = Trial(folder)
    none = trial.table("samples").where([])
    assert cost(trial, trial.table("events"), tables.steps_of(trial), none)["agent_cpu_pct"] is None


def test_a_trace_without_steps_has_the_ranks_of_its_devices(tmp_path):
    paths = []
    for rank in range(2):
        whole = trace(rank)
        events = [one for one in whole["traceEvents"] if not one["name"].startswith("ProfilerStep")]
        paths.append(tmp_path / f"rank{rank}.pt.trace.json")
        paths[-1].write_text(json.dumps({**whole, "traceEvents": events}))
    import_job(paths, str(tmp_path / "store"), "trace", now_ns=10**18)
    described = describe(Trial(at(str(tmp_path / "store" / "trace"))))
    assert (described["steps"], described["ranks"]) == (None, [0, 1])
