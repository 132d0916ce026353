"""The files of SageMaker's profiler report: what each rule's document says; that they keep up with a job."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest
from tests.evaluation.jobs import begin, end, finished, write
from tests.generated.story import NODE, story

from holter.cli import main
from holter.cli.run.joining import companions
from holter.drawing.figure import figure
from holter.evaluation import choose, documents, evaluate
from holter.pages.text.measured import measured
from holter.pages.text.report import body
from holter.report import profiler_report
from holter.report.rule_details import RULES
from holter.store.trial import Trial
from holter.views.document.description import describe
from holter.views.reading import Reading

SOURCE = str(Path(__file__).parents[2] / "src")
CLASSIC = "ProfilerReport:profile=classic,BatchSize_memory=used,GPUMemoryIncrease_memory=used"


@pytest.fixture(scope="module")
def told():
    return story("before", ranks=2, cores=4, steps=250, samples=1700)


@pytest.fixture(scope="module")
def job(tmp_path_factory, told):
    rules = documents(choose([CLASSIC]))
    job = finished(told, tmp_path_factory.mktemp("store"), rules)
    evaluate(job)
    return job


@pytest.fixture(scope="module")
def found(job):
    files = profiler_report.files(job)
    return {
        name.removeprefix("profiler-reports/").removesuffix(".json"): json.loads(text)
        for name, text in files.items()
        if name.startswith("profiler-reports/")
    }


def test_a_document_for_each_rule(found):
    assert sorted(found) == sorted(RULES)
    assert len(found) == 11
    for told in found.values():
        assert set(told) == {
            *("RuleTriggered", "Violations", "Datapoints", "RuleParameters", "Details", "Parameters")
        }
        lines = dict(line.split(":", 1) for line in told["RuleParameters"].splitlines())
        assert set(lines) == set(told["Parameters"])


def test_the_report_has_found_issues_when_one_of_its_rules_has(job):
    rules = {rule["rule"]: rule for rule in job.evaluations()["rules"]}
    assert rules["ProfilerReport"]["status"] == "IssuesFound"
    assert "LowGPUUtilization" in rules["ProfilerReport"]["status_details"]
    assert rules["ProfilerReport"]["issues"] == [], "they are told where they were found"


def test_low_gpu_utilization(found):
    told = found["LowGPUUtilization"]
    assert told["RuleTriggered"] > 0
    assert told["Violations"] >= told["RuleTriggered"]
    assert "threshold_p95:70.0" in told["RuleParameters"]
    assert set(told["Details"]) == {NODE, "last_timestamp"}
    gpu = told["Details"][NODE]["gpu0"]
    assert set(gpu) == {"gpu_max", "gpu_95", "gpu_5", "p25", "p50", "p75", "p95", "upper", "lower"}
    assert 48 < gpu["gpu_95"] < 56


def test_overall_system_usage(found):
    usage = found["OverallSystemUsage"]["Details"]
    assert list(usage["CPU"][NODE]) == ["max", "p99", "p95", "p50", "min"]
    assert usage["CPU"][NODE]["p50"] == pytest.approx(85, abs=1)
    assert {"GPU", "CPU", "CPU memory", "GPU memory", "I/O"} <= set(usage)
    assert found["OverallSystemUsage"]["RuleTriggered"] == 0


def test_framework_metrics(found):
    told = found["OverallFrameworkMetrics"]["Details"]
    assert told["phase"]["Step:ModeKeys.TRAIN"] == pytest.approx(100)
    assert told["forward_backward"] == pytest.approx({"Forward pass": 37.5, "Backward pass": 62.5}, abs=0.5)
    assert told["general"]["data_loading"] == pytest.approx(60, abs=1)


def test_the_other_details(found, told):
    boxes = found["BatchSize"]["Details"][NODE]
    assert set(boxes) == {"cpu", "gpu0", "gpu1", "gpu0_memory", "gpu1_memory"}
    assert set(boxes["gpu0"]) == {"p25", "p50", "p75", "p95", "upper", "lower"}
    start = found["MaxInitializationTime"]["Details"]
    assert start["job_start"] == told.manifest["start"] / 1e9
    first = told.spans["time"][told.spans["phase"] == "step"].min()
    assert start["step_num"]["first"] == first // 1000
    loader = found["Dataloader"]["Details"]
    assert (loader["cores"], loader["num_workers"], loader["pin_memory"]) == (4, 4, False)
    assert loader["dataloading_time"]["p50"] == pytest.approx(0.6, rel=0.03), "seconds"
    assert (len(loader["dataloading_time"]["probs"]), len(loader["dataloading_time"]["binedges"])) == (
        100,
        101,
    )
    assert sum(loader["dataloading_time"]["probs"]) == pytest.approx(1)
    assert "low_gpu_utilization" in found["CPUBottleneck"]["Details"]
    steps = found["StepOutlier"]["Details"]["step_details"]
    assert len(steps) == 2
    one = next(iter(steps.values()))
    assert one["step_stats"]["p50"] == pytest.approx(1.0, rel=0.02)
    assert (one["phase"], len(one["probs"]), len(one["binedges"])) == ("Step:ModeKeys.TRAIN", 100, 101)
    assert found["LoadBalancing"]["Details"][NODE]["workloads"].keys() == {"gpu0", "gpu1"}
    assert "distances" not in found["LoadBalancing"]["Details"][NODE], "only when it fired"


def test_gpu_memory(found):
    gpu = found["GPUMemoryIncrease"]["Details"][NODE]["gpu0"]
    assert set(gpu) == {"gpu_max", "p05", "p25", "p50", "p75", "p95", "upper", "lower"}
    assert gpu["p50"] == pytest.approx(62, abs=1)


def test_the_page_says_what_each_rule_measured(job):
    text = "".join(body(Reading(Trial(job))))
    text = text[text.index("The training loop in detail") :]
    heads = ["Duration of steps", "Use of each GPU", "Balance of the load", "Data loading", "Batch size"]
    heads += ["CPU bottlenecks", "I/O bottlenecks", "GPU memory"]
    assert [head for head in re.findall("<h3>(.*?)</h3>", text) if head in heads] == heads
    assert f"{NODE}/gpu0 is used too little: 95 % of its last readings are 50.3 % or less" in text
    assert "a GPU was below 10 % in 0 of 1,700 snapshots" in text
    assert "8 loader processes ran, on 4 cores." in text


def test_only_the_beginning_is_looked_into_where_it_takes_longer_than_the_training(job):
    reading = Reading(Trial(job))
    phases = {**reading.description["phases"], "initialization_s": 900.0}
    text = "".join(measured({**reading.description, "phases": phases}, reading.trial, figure))
    assert "The initialization in detail" in text
    assert "The training took 15 min 0 s to begin" in text
    assert "Batch size" not in text


def test_what_ran_at_bottlenecks(tmp_path, told):
    rule = "CPUBottleneck:gpu_threshold=60,cpu_threshold=70,threshold=1,patience=10,defaults=classic"
    job = finished(told, tmp_path)
    (ran,) = evaluate(job, [rule], record=False).rules
    told = profiler_report.document(ran, Trial(job))
    assert told["RuleTriggered"] > 0
    assert told["Details"]["bottlenecks"]
    assert next(iter(told["Details"]["bottlenecks"].values())) == {"GPUs": 2, "CPUs": 4}
    page = "".join(measured(describe(Trial(job)) | {"rules": [ran]}, Trial(job), figure))
    low, count = ran["details"][NODE]["low_gpu_utilization"], ran["details"][NODE]["snapshots"]
    assert f"a GPU was below 60 % in {low:,} of {count:,} snapshots" in page
    assert f"Snapshots of {NODE}" in page


def test_the_command_writes_a_folder(tmp_path, monkeypatch, capsys, job):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLTER_STORE", job.url.rpartition("/")[0])
    assert main(["report", job.name, "--format", "sagemaker", "-o", "out"]) == 0
    out = tmp_path / "out"
    names = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert names[:2] == ["profiler-report.html", "profiler-report.ipynb"]
    assert len(names) == 2 + 11
    capsys.readouterr()
    assert main(["report", job.name, "--format", "sagemaker", "-o", "out"]) == 64
    assert "--force" in capsys.readouterr().err
    assert main(["report", job.name, "--format", "sagemaker", "-o", "out", "--force"]) == 0


def test_rules_that_did_not_run_judge_when_asked(tmp_path):
    job = finished(story("before", ranks=1, cores=1, steps=20, samples=40), tmp_path)
    assert len(profiler_report.files(job)) == 2
    judged = profiler_report.files(job, judge=True)
    assert len(judged) == 2 + 11
    assert "Duration of steps" not in profiler_report.files(job)["profiler-report.html"]
    assert "LoadBalancing" in judged["profiler-report.html"]


def test_an_empty_job_has_a_report(tmp_path):
    told = story("before", ranks=1, cores=1, steps=5, samples=5)
    folder = begin(told, tmp_path, documents(choose([CLASSIC])))
    end(folder, told)
    evaluate(folder)
    files = profiler_report.files(folder)
    outlier = json.loads(files["profiler-reports/StepOutlier.json"])
    assert (outlier["Datapoints"], outlier["Details"]) == (0, {})
    start = json.loads(files["profiler-reports/MaxInitializationTime.json"])
    assert start["Details"]["step_num"] == {}


def test_it_keeps_up_with_a_running_job(tmp_path):
    told = story("before", ranks=1, cores=1, steps=40, samples=100)
    folder = begin(told, tmp_path, documents(choose([CLASSIC])))
    write(folder, {"samples": told.samples, "spans": told.spans, "events": told.events})
    assert profiler_report.wanted(folder)
    where = f"{profiler_report.place_of(folder)}/profiler-report.html"
    stop, waited = threading.Event(), []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        stop.wait(0.02)

    thread = threading.Thread(
        target=profiler_report.follow, args=(folder,), kwargs={"stopping": stop.is_set, "wait": wait}
    )
    thread.start()
    try:
        evaluate(folder, record=True)
        deadline = time.monotonic() + 120
        while not any(seconds >= 60 for seconds in waited) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "Running" in folder.place.read(where).decode()
        assert min(seconds for seconds in waited if seconds > 10) >= profiler_report.LEAST_PAUSE_S
        end(folder, told)
        evaluate(folder)
        thread.join(120)
        assert not thread.is_alive(), "it goes on after the job's end"
    finally:
        stop.set()
        thread.join()


def test_its_process(tmp_path, told):
    job = finished(told, tmp_path, documents(choose([CLASSIC])))
    evaluate(job)
    commands = companions(job, job.manifest()["rules"])
    assert [command[4] for command in commands] == ["holter.evaluation", "holter.report"]
    assert [command[4] for command in companions(job, [{"name": "BatchSize"}])] == ["holter.evaluation"]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run(
        commands[1], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert job.place.read(f"{profiler_report.place_of(job)}/profiler-report.html").startswith(b"<!doctype")
    asked = [*commands[1][:6], f"{tmp_path}/nothing"]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 4
    assert "no job 'nothing'" in done.stderr
