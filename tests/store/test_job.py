"""Jobs of a store: made, found, listed, changed; and what bad input gets."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.strategies import new_job

from holter.store import job
from holter.store.job import BadJobName, JobExists, JobNotFound, StoreNotWritable
from holter.store.layout import current, node_key, parse_node, parse_part, part_key

NODE_NAMES = st.characters(exclude_characters="\x00")


def create(store: Path | str, name: str, now_ns: int = 1) -> job.JobFolder:
    return job.create(str(store), name, command=["python", "x.py"], interval_ms=500, rules=[], now_ns=now_ns)


def test_a_new_job(tmp_path: Path) -> None:
    folder = create(tmp_path / "deep" / "store", "resnet-1.5_b", now_ns=7)
    assert folder.fault is None
    manifest = job.find(str(tmp_path / "deep" / "store"), "resnet-1.5_b").manifest()
    assert manifest["status"] == "InProgress"
    assert (manifest["start"], manifest["end"], manifest["schema"]) == (7, None, 1)
    assert manifest["command"] == ["python", "x.py"]
    assert job.at(folder.url + "/").manifest() == manifest
    assert job.at(f"file://{folder.url}").manifest() == manifest


def test_a_relative_store_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = create("holter-jobs", "a")
    assert job.at("holter-jobs/a").url == folder.url == str(tmp_path / "holter-jobs" / "a")
    monkeypatch.chdir(tmp_path / "holter-jobs")
    assert job.at("a").manifest()["name"] == "a"
    monkeypatch.chdir("/")
    assert folder.manifest()["name"] == "a"


@pytest.mark.parametrize("name", ["", "-a", "a-", ".a", "a/b", "a b", "../x", "a\n", "é", "a" * 129, "_x"])
def test_names_that_no_job_may_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadJobName, match="is not a job name"):
        create(tmp_path, name)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(JobNotFound):
        job.find(str(tmp_path), name)


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    create(tmp_path, "a")
    create(tmp_path, "a-2")
    with pytest.raises(JobExists, match=r"job 'a' exists in store .*; 'a-3' is free"):
        create(tmp_path, "a")
    longest = "b" * 128
    create(tmp_path, longest)
    with pytest.raises(JobExists, match=f"'{'b' * 120}-2' is free"):
        create(tmp_path, longest)
    assert create(tmp_path, "b" * 120 + "-2").name


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for store in (tmp_path / "file", tmp_path / "file" / "below", "/proc/holter", "nonsense://x"):
        with pytest.raises(StoreNotWritable, match="store"):
            create(store, "a")


def test_a_job_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(JobNotFound, match="there is no such folder"):
        job.find(str(tmp_path / "nowhere"), "a")
    with pytest.raises(JobNotFound, match="it has none"):
        job.find(str(tmp_path), "a")
    create(tmp_path, "resnet50")
    with pytest.raises(JobNotFound, match="near names: resnet50"):
        job.find(str(tmp_path), "resnet-50")
    with pytest.raises(JobNotFound, match=r"it has 1 job: \S+$"):
        job.find(str(tmp_path), "zzz")


def test_only_one_of_many_gets_a_name(tmp_path: Path) -> None:
    made: list[str] = []

    def race() -> None:
        with contextlib.suppress(JobExists):
            made.append(create(tmp_path, "a").url)

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_jobs_newest_first_and_thousands_quickly(tmp_path: Path) -> None:
    for n in range(1000):
        create(tmp_path, f"job{n}", now_ns=n)
    (tmp_path / "not a job").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "job5" / "job.json").write_text("{")
    listed = job.jobs(str(tmp_path))
    assert [j.name for j in listed[:2]] == ["job999", "job998"]
    assert {j.name: j.fault is not None for j in listed[-2:]} == {"empty": True, "job5": True}
    assert len(listed) == 1001
    assert job.jobs(str(tmp_path / "nowhere")) == []


def _count(store: str, key: str) -> None:
    folder = job.find(store, "job")
    for n in range(40):
        folder.update(**{f"{key}{n}": n})


def test_changes_by_several_processes_are_all_kept(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    spawn = multiprocessing.get_context("spawn")
    others = [spawn.Process(target=_count, args=(str(tmp_path), key)) for key in "ab"]
    for process in others:
        process.start()
    for process in others:
        process.join(60)
    manifest = folder.manifest()
    assert all(manifest[f"{key}{n}"] == n for key in "ab" for n in range(40))
    assert folder.faults == []


def test_documents(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    assert (folder.control(), folder.evaluations(), folder.nodes(), folder.node("x")) == ({}, {}, {}, {})
    folder.order(stop=True)
    folder.write_evaluations({"rules": []})
    folder.write_node("host/1 %", {"cpus": 4})
    again = job.find(str(tmp_path), "job")
    assert (again.control(), again.evaluations()) == ({"stop": True}, {"rules": []})
    assert again.nodes() == {"host/1 %": {"cpus": 4}}


def test_the_store_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLTER_STORE", raising=False)
    assert job.store_url() == "./holter-jobs"
    monkeypatch.setenv("HOLTER_STORE", "/data")
    assert (job.store_url(), job.store_url("s3://b/x")) == ("/data", "s3://b/x")


@given(st.text(NODE_NAMES, min_size=1), st.integers(0, 2**62), st.integers(0, 10**6), st.integers(0, 10**6))
def test_names_of_files_tell_what_they_were_made_of(node: str, t0: int, first: int, more: int) -> None:
    node = node.encode("utf-8", "replace").decode()
    part = parse_part(part_key("spans", node, t0, first, first + more))
    assert part is not None
    assert part[:5] == ("spans", node, t0, first, first + more)
    assert parse_node(node_key(node)) == node
    assert part.key.count("/") == 2


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=12))
def test_the_files_that_count_cover_each_number_once(ranges: list[tuple[int, int]]) -> None:
    parts = {parse_part(part_key("spans", "n", 0, first, first + more)) for first, more in ranges}
    chosen = current(part for part in parts if part is not None)
    counted = [n for part, since in chosen for n in range(since, part.last + 1)]
    assert sorted(counted) == sorted({n for part in parts if part for n in range(part.first, part.last + 1)})
