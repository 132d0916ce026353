"""The worked case "which of four suspects?": what each rule must say before and after the fix."""

from __future__ import annotations

import pytest
from tests.evaluation.jobs import finished
from tests.generated.story import story

from holter.evaluation import evaluate

CONFIGURED = [
    "low_gpu_utilization:threshold=70,window=500,defaults=classic",
    "dataloader_bottleneck",
    "OverallSystemUsage",
    "OverallFrameworkMetrics",
    "CPUBottleneck:defaults=classic",
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    found = {}
    for name in ("before", "after"):
        job = finished(story(name, ranks=8, cores=8, steps=250), store)
        result = evaluate(job, CONFIGURED, record=False)
        found[name] = {r["name"]: r for r in result.rules}
        found[name]["exit_code"] = result.exit_code
        found[f"{name} modern"] = {r["name"]: r for r in evaluate(job, ["pack:default"], record=False).rules}
    return found


def test_before(results):
    before = results["before"]
    statuses = {name: rule["status"] for name, rule in before.items() if name != "exit_code"}
    assert statuses == {
        "LowGPUUtilization": "IssuesFound",
        "DataloaderBottleneck": "IssuesFound",
        "OverallSystemUsage": "NoIssuesFound",
        "OverallFrameworkMetrics": "NoIssuesFound",
        "CPUBottleneck": "NoIssuesFound",
    }
    assert before["exit_code"] == 3
    gpus = before["LowGPUUtilization"]["issues"]
    assert sorted(i["device"] for i in gpus) == [f"gpu{i}" for i in range(8)]
    assert all(i["code"] == "low" and 48 < i["evidence"]["p95_pct"] < 56 for i in gpus)
    assert before["CPUBottleneck"]["coverage"]["evaluated"] is True
    (loading,) = before["DataloaderBottleneck"]["issues"]
    assert loading["severity"] == "critical"
    assert loading["evidence"]["share_pct"] == pytest.approx(60, abs=1)
    assert loading["evidence"]["compute_ratio"] == pytest.approx(1.5, abs=0.05)
    stages = loading["evidence"]["stages_pct"]
    assert stages["decode"] == pytest.approx(22, abs=1)
    assert stages["transform"] == pytest.approx(28, abs=1)
    assert loading["evidence"]["causes"][0] == "too_few_workers"


def test_after(results):
    after = results["after"]
    assert {r["status"] for name, r in after.items() if name != "exit_code"} == {"NoIssuesFound"}
    assert after["exit_code"] == 0
    assert after["LowGPUUtilization"]["coverage"]["evaluated"] is True
    assert after["DataloaderBottleneck"]["coverage"]["evaluated"] is True


def test_statistics(results):
    cpu = {
        name: results[name]["OverallSystemUsage"]["details"]["nodes"]["node-0"]
        for name in ("before", "after")
    }
    assert cpu["before"]["CPU"]["p50"] == pytest.approx(85, abs=1)
    assert cpu["after"]["CPU"]["p50"] == pytest.approx(55, abs=1)
    assert cpu["before"]["GPU"]["p50"] == pytest.approx(40, abs=1)
    assert cpu["after"]["GPU"]["p50"] == pytest.approx(88, abs=1)
    parts = results["before"]["OverallFrameworkMetrics"]["details"]["part_pct"]
    shares = {"data_loading": 60, "forward": 12, "backward": 20, "optimizer": 8}
    assert {name: parts[name] for name in shares} == pytest.approx(shares, abs=1)


def test_modern_defaults(results):
    after = results["after modern"]
    assert {r["status"] for r in after.values()} == {"NoIssuesFound"}
    before = {name for name, r in results["before modern"].items() if r["status"] == "IssuesFound"}
    # The modern CPUBottleneck calls a GPU low below 30 %, so it sees this case, which the classic misses.
    assert before == {"LowGPUUtilization", "DataloaderBottleneck", "CPUBottleneck"}
    leak = results["before modern"]["HostMemoryLeak"]
    assert leak["status_details"].startswith("NotEvaluated: no_input")
    assert leak["coverage"]["evaluated"] is False
