"""`describe`, `diagnose` and `rules run` on stores: complete, damaged, empty, wrong."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from tests.cli.conftest import PUBLISHED, job, told
from tests.views.windows import window


def test_describe_as_json_keeps_to_the_schema(holter):
    told("before", ranks=1, cores=4)
    document = json.loads(holter("describe", "latest", "--json").out)
    jsonschema.validate(document, PUBLISHED)
    assert document["verdict"]["suspect"] == "data_pipeline"
    assert document["ranks"] == [0]
    assert sum(document["breakdown"].values()) == pytest.approx(100, abs=0.5)
    diagnosis = json.loads(holter("diagnose", "before", "--json").out)
    assert diagnosis["verdict"] == document["verdict"]
    assert diagnosis["breakdown"] == document["breakdown"]
    shown = holter("diagnose", "holter-jobs/before").out
    assert document["verdict"]["sentence"][:40] in shown


def test_detail_shows_what_lies_behind_the_card_of_a_job(holter):
    folder, _ = told("model", ranks=1, cores=4)
    assert "No step was profiled. `holter profile JOB" in holter("diagnose", "model", "--detail").out
    first, last = window(folder, device="cuda")
    plain, detail = holter("diagnose", "model").out, holter("diagnose", "model", "--detail").out
    assert "Roofline" not in plain
    assert "From launch to run" in detail
    assert f"Operators of steps {first} to {last}" in detail
    assert "aten::mm: 3 x 33.6 MFLOP, 300 us, 336 GFLOP/s" in detail  # 0.1 ms each, on the accelerator
    assert max(map(len, detail.splitlines())) <= 100
    told_of = json.loads(holter("diagnose", "model", "--json").out)["window"]
    assert told_of["detail"]["launches"]["count"] == 3


def test_a_job_without_data_says_what_is_missing(holter):
    job("empty")
    document = json.loads(holter("describe", "empty", "--json").out)
    jsonschema.validate(document, PUBLISHED)
    assert document["verdict"]["suspect"] == "inconclusive"
    assert document["steps"] is None
    assert document["breakdown"] is None
    assert document["cost"]["recorder_pct"] is None
    answer = holter("describe", "empty")
    assert answer.code == 0
    assert "No training step was recorded" in answer.out


def test_a_job_whose_agent_was_killed_is_said_not_to_run(holter):
    job("left", status="InProgress", age_s=3600)
    assert "left is not running: its agent said nothing for" in holter("describe", "left").err
    job("ended", age_s=3600)
    assert holter("describe", "ended").err == ""


def test_damaged_files_cost_their_rows_and_are_named(holter):
    folder, _ = told("before", ranks=1, cores=4)
    parts = sorted(Path(folder.url).glob("samples/*/*.parquet"))
    parts[0].write_bytes(parts[0].read_bytes()[:100])
    (Path(folder.url) / "spans" / "node=node-0" / "notes.txt").write_text("not ours")
    document = json.loads(holter("describe", "before", "--json").out)
    jsonschema.validate(document, PUBLISHED)
    assert any(parts[0].name in entry["file"] for entry in document["skipped"])
    assert document["breakdown"]["data_loading"] == pytest.approx(60, abs=1)
    assert parts[0].name in holter("describe", "before").out
    assert "a file of samples (and 1 more) cannot be read" in holter("diagnose", "before").out


def test_a_wrong_schema_version_is_said(holter):
    folder, _ = told("before", ranks=1, cores=4)
    folder.update(schema=99)
    document = json.loads(holter("describe", "before", "--json").out)
    assert any("99" in entry["why"] for entry in document["skipped"])


def test_what_is_no_job_is_refused_with_what_is(holter):
    job("mine")
    Path("trace.json").write_text("{}")
    Path("folder/inner").mkdir(parents=True)
    holter("diagnose", "trace.json").refused(65, "trace.json")
    holter("diagnose", "./folder/inner").refused(65, "./folder/inner", "no file of a known format")
    holter("diagnose", "./holter-jobs").refused(65, "a store", "holter jobs --store")
    holter("diagnose", "gone/trace.json").refused(4, "trace.json")


def test_rules_run_judges_without_writing(holter):
    folder, _ = told("before", ranks=1, cores=4)
    answer = holter(
        "rules",
        "run",
        "before",
        "StepOutlier",
        "LowGPUUtilization:threshold_p95=70,patience=1000,window=500",
        "--json",
    )
    assert answer.code == 3, answer.err
    found = {rule["name"]: rule for rule in json.loads(answer.out)["rules"]}
    assert found["LowGPUUtilization"]["status"] == "IssuesFound"
    assert found["LowGPUUtilization"]["parameters"]["threshold_p95"] == 70
    assert holter("rules", "run", "before", "MaxInitializationTime").code in (0, 3)
    assert folder.evaluations() == {}
    holter("rules", "run", "before", "Nope").refused(64, "'Nope'")


def test_rules_are_listed_and_shown(holter):
    assert "LowGPUUtilization" in holter("rules", "list").out
    listed = {rule["name"]: rule for rule in json.loads(holter("rules", "list", "--json").out)["rules"]}
    parameters = {p["name"]: p["default"] for p in listed["LowGPUUtilization"]["parameters"]}
    shown = holter("rules", "show", "low_gpu_utilization").out
    for name, value in parameters.items():
        assert f"{name} = {value}" in shown
    holter("rules", "show", "LowGPU").refused(64, "LowGPU")
    holter("rules", "lst").refused(64, "'list'")


def test_every_rule_is_described(holter):
    for rule in json.loads(holter("rules", "list", "--json").out)["rules"]:
        assert rule["description"], rule["name"]
        assert all(p["meaning"] for p in rule["parameters"]), rule["name"]
