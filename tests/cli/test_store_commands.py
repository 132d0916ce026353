"""`jobs`, `prune`, `stop`, `configure` on stores with finished, running and damaged jobs."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from tests.cli.conftest import job


def names(answer):
    return [entry["name"] for entry in json.loads(answer.out)["jobs"]]


def test_no_job_yet(holter):
    answer = holter("jobs")
    assert answer.code == 0
    assert "holter run -- python train.py" in answer.out
    assert json.loads(holter("jobs", "--json").out)["jobs"] == []


def test_jobs_are_listed_newest_first(holter):
    job("old", age_s=7200)
    job("young", age_s=60, verdict={"suspect": "data_pipeline", "sentence": "…"})
    answer = holter("jobs")
    assert answer.out.index("young") < answer.out.index("old")
    assert "data pipeline" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 100
    listed = json.loads(holter("jobs", "--json").out)["jobs"]
    assert [entry["duration_s"] for entry in listed] == [10.0, 10.0]


def test_jobs_can_be_narrowed_down(holter):
    job("resnet-a", age_s=7200)
    job("resnet-b", status="Failed")
    job("bert")
    assert names(holter("jobs", "--json", "--name", "resnet*")) == ["resnet-b", "resnet-a"]
    assert names(holter("jobs", "--json", "--status", "failed")) == ["resnet-b"]
    assert names(holter("jobs", "--json", "--since", "1h", "--name", "resnet")) == ["resnet-b"]
    assert "None of the 3 jobs" in holter("jobs", "--name", "vgg").out
    holter("jobs", "--status", "Faild").refused(64, "did you mean 'Failed'?")
    holter("jobs", "--since", "yesterday").refused(64, "'yesterday'", "7d")


def test_a_damaged_job_is_listed_as_such(holter):
    job("good")
    Path("holter-jobs/bad").mkdir()
    Path("holter-jobs/bad/job.json").write_text('{"schema": 1, "na')
    listed = {entry["name"]: entry for entry in json.loads(holter("jobs", "--json").out)["jobs"]}
    assert listed["bad"]["status"] == "Unreadable"
    assert "job.json" in listed["bad"]["fault"]
    assert listed["good"]["status"] == "Completed"
    holter("describe", "bad").refused(65, "job.json")
    holter("stop", "bad").refused(65, "job.json")


def test_a_job_of_another_schema_version_is_listed_as_it_is_described(holter):
    job("newer", verdict={"suspect": "data_pipeline", "headline": None})
    manifest = Path("holter-jobs/newer/job.json")
    manifest.write_text(manifest.read_text().replace('"schema": 1', '"schema": 2'))
    (listed,) = json.loads(holter("jobs", "--json").out)["jobs"]
    described = json.loads(holter("describe", "newer", "--json").out)
    assert listed["status"] == described["job"]["status"] == "Completed"
    assert listed["fault"] == "job.json has schema version 2; this holter reads 1"
    assert described["skipped"] == [{"file": "job.json", "why": "has schema version 2; this holter reads 1"}]
    assert "has schema version 2" in holter("jobs").out


def test_a_job_is_found_by_name_start_path_or_latest(holter):
    job("train-a-1", age_s=100)
    job("train-b-1", age_s=50)
    for word in ("train-b-1", "train-b", "latest", "holter-jobs/train-b-1", "./holter-jobs/train-b-1/"):
        holter("stop", word).refused(5, "train-b-1", "not running", "Completed")
    holter("stop", "train-").refused(4, "train-a-1", "train-b-1")
    holter("stop", "trian-a-1").refused(4, "near names: train-a-1")
    holter("stop", "latest", "--store", "elsewhere").refused(4, "no job in store elsewhere")


def test_prune_shows_then_deletes(holter):
    job("ancient", age_s=100 * 86_400)
    job("recent")
    job("running", age_s=100 * 86_400, status="InProgress")
    holter("prune").refused(64, "--older-than")
    answer = holter("prune", "--older-than", "30d", "--dry-run")
    assert "ancient" in answer.out
    assert "recent" not in answer.out
    assert "--yes" in holter("prune", "--older-than", "30d").out
    assert Path("holter-jobs/ancient").exists(), "deleted without an answer"
    assert "Deleted 1 job" in holter("prune", "--older-than", "30d", "--yes").out
    assert sorted(path.name for path in Path("holter-jobs").iterdir()) == ["recent", "running"]
    assert "Nothing to delete" in holter("prune", "--keep", "5").out
    holter("prune", "--older-than", "30").refused(64, "30d")
    holter("prune", "--keep", "-1").refused(64, "'-1'")


def test_configure_writes_an_order(holter):
    folder = job("live", status="InProgress", age_s=5)
    assert "every 100ms" in holter("configure", "live", "--interval", "100ms").out
    assert folder.control()["interval_ms"] == 100
    holter("configure", "live", "--interval", "300ms").refused(64, "300ms")
    holter("configure", "live").refused(64, "--interval")


def test_stop_waits_for_the_end(holter):
    folder = job("live", status="InProgress", age_s=5)

    def agent():
        while "stop" not in folder.control():
            time.sleep(0.01)
        folder.update(status="Stopped", end=time.time_ns())

    thread = threading.Thread(target=agent)
    thread.start()
    answer = holter("stop", "live", "--grace", "5")
    thread.join()
    assert answer.code == 0
    assert "Stopped" in answer.out
    assert folder.control()["stop"] == {"grace_s": 5.0}
    holter("stop", "live").refused(5, "not running")


@pytest.mark.parametrize("grace", ["-1", "soon"])
def test_stop_with_a_wrong_grace(holter, grace):
    job("live", status="InProgress", age_s=5)
    holter("stop", "live", "--grace", grace).refused(64, grace)


def test_a_job_whose_agent_died_is_not_running(holter):
    folder = job("lost", status="InProgress", age_s=3600)
    folder.write_node("a", {"heartbeat": time.time_ns() - 600 * 10**9})
    holter("stop", "lost").refused(5, "not running", "10 min")
    assert "said nothing for 10 min" in holter("jobs").out
