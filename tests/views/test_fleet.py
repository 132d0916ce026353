"""The jobs of a store as a fleet: from its index, and from the manifests of jobs that are not in it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from holter.store import index
from holter.store.job import JobFolder, create, find, jobs
from holter.views.fleet import fleet, index_entry, summary_lines

NOW = 1_700_000_000_000_000_000
HOUR = 3600 * 10**9


def ended(store: str, name: str, *, hours: float = 2.0, ago_h: float = 0.0, **facts: object) -> JobFolder:
    """Make a job that has ended, on two nodes with eight GPUs each."""
    end = NOW - round(ago_h * HOUR)
    made = create(store, name, command=["x"], interval_ms=500, rules=[], now_ns=end - round(hours * HOUR))
    usage = {
        "nodes": 2,
        "gpus": 16,
        "idle_pct": 25.0,
        "idle_of": "accelerators",
        "lost": [{"rule": "DataloaderBottleneck", "pct": 20.0}],
    }
    known = {"owner": "ann", "status": "Completed", "end": end, "usage": usage} | facts
    known.setdefault("verdict", {"suspect": "data_loading", "sentence": "It waits.", "headline": None})
    made.update(**known)
    return made


def indexed(store: str, name: str, **facts: object) -> None:
    index.add(store, index_entry(ended(store, name, **facts).manifest()))


def test_hours_idle_time_and_cost(tmp_path: Path) -> None:
    store = str(tmp_path)
    indexed(store, "a", price=10.0)
    indexed(store, "b", owner="bob", price=None, status="Failed")
    found = fleet([store], now_ns=NOW)
    assert [job["name"] for job in found["jobs"]] == ["a", "b"]
    total = found["total"]
    assert (total["jobs"], total["failed"], total["node_hours"], total["gpu_hours"]) == (2, 1, 8.0, 64.0)
    assert total["idle_node_hours"] == pytest.approx(2.0)
    assert (total["cost"], total["idle_cost"], total["priced"]) == (40.0, 10.0, 1)
    assert found["owners"]["bob"]["cost"] is None
    assert found["verdicts"]["data_loading"]["jobs"] == 2
    (problem,) = found["problems"]
    assert (problem["rule"], problem["jobs"], problem["node_hours"]) == ("DataloaderBottleneck", 2, 1.6)
    assert problem["cost"] == pytest.approx(8.0)
    dear = fleet([store], price=100.0, now_ns=NOW)
    assert dear["total"]["cost"] == pytest.approx(800.0)


def test_what_is_unknown_is_not_zero(tmp_path: Path) -> None:
    store = str(tmp_path)
    indexed(store, "a", usage=None, verdict=None)
    (job,) = fleet([store], price=1.0, now_ns=NOW)["jobs"]
    unknown = ("nodes", "gpus", "gpu_hours", "node_hours", "idle_pct", "cost", "idle_cost", "suspect")
    assert [job[name] for name in unknown] == [None] * len(unknown)
    found = fleet([store], price=1.0, now_ns=NOW)
    total = found["total"]
    assert (total["gpus_unknown"], total["idle_unknown"], total["cost"]) == (1, 1, None)
    assert total["nodes_unknown"] == 1
    assert list(summary_lines(found))[1] == "machine hours unknown, GPU hours unknown"
    indexed(store, "b")
    some = list(summary_lines(fleet([store], now_ns=NOW)))[1]
    assert some == "4 machine hours (1 job left out), 32 GPU hours (1 job left out)"


def test_jobs_that_are_not_in_the_index_are_read(tmp_path: Path) -> None:
    store = str(tmp_path)
    ended(store, "old")
    running = create(store, "runs", command=["x"], interval_ms=500, rules=[], now_ns=NOW - HOUR)
    running.write_node("n0", {"heartbeat": NOW, "gpus": [{"device": "0"}] * 4})
    silent = create(store, "silent", command=["x"], interval_ms=500, rules=[], now_ns=NOW - 5 * HOUR)
    silent.write_node("n0", {"heartbeat": NOW - 4 * HOUR, "gpus": []})
    (tmp_path / "broken").mkdir()
    by_name = {job["name"]: job for job in fleet([store], now_ns=NOW)["jobs"]}
    assert by_name["old"]["gpu_hours"] == 32.0
    assert (by_name["runs"]["gpu_hours"], by_name["runs"]["end"]) == (4.0, None)
    assert (by_name["silent"]["silent"], by_name["silent"]["hours"]) == (True, 1.0)
    assert by_name["broken"]["status"] == "Unreadable"
    assert fleet([store], now_ns=NOW)["total"]["running"] == 1


def test_deleted_jobs_still_count(tmp_path: Path) -> None:
    store = str(tmp_path)
    indexed(store, "a", ago_h=48)
    find(store, "a").place.destroy()
    indexed(store, "a")
    found = fleet([store], now_ns=NOW)
    assert [(job["name"], job["kept"]) for job in found["jobs"]] == [("a", True), ("a", False)]
    assert [job.name for job in jobs(store)] == ["a"], "the index is no job"


def test_problems_are_those_of_the_last_days(tmp_path: Path) -> None:
    store = str(tmp_path)
    indexed(store, "new", ago_h=24)
    indexed(store, "old", ago_h=24 * 10)
    assert fleet([store], now_ns=NOW)["problems"][0]["jobs"] == 1
    assert fleet([store], days=30, now_ns=NOW)["problems"][0]["jobs"] == 2


def test_single_files_are_packed_and_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "PACK_AT", 5)
    store = str(tmp_path)
    made = [ended(store, f"job-{at}").manifest() for at in range(23)]
    threads = [
        threading.Thread(target=lambda part=part: [index.add(store, index_entry(one)) for one in part])
        for part in (made[:12], made[12:])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = index.entries(store)
    assert sorted(one["name"] for one in found) == sorted(str(one["name"]) for one in made)
    files = list((tmp_path / index.FOLDER).rglob("*.json"))
    assert len(files) < 23
    assert any(path.parent.name == "packed" for path in files)


def test_a_damaged_file_costs_only_its_jobs(tmp_path: Path) -> None:
    store = str(tmp_path)
    indexed(store, "a")
    (tmp_path / index.FOLDER / "loose" / "bad.json").write_text("[{")
    assert [job["name"] for job in fleet([store], now_ns=NOW)["jobs"]] == ["a"]


def test_a_store_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    store = str(tmp_path / "a")
    indexed(store, "a")
    found = fleet([store, "foo://bar"], now_ns=NOW)
    assert len(found["jobs"]) == 1
    assert len(found["wrong"]) == 1
    assert "foo" in found["wrong"][0]
