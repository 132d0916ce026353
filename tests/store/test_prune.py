"""Retention: what is deleted, what never is."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.store.strategies import numbered, write

from holter.store import job
from holter.store.job import JobFolder
from holter.store.prune import prune

DAY = 24 * 3600 * 10**9


def store(where: Path, now: int) -> list[JobFolder]:
    """Five jobs, a day apart; the oldest runs."""
    made = []
    for age in range(5):
        folder = job.create(
            str(where), f"age{age}", command=["true"], interval_ms=500, rules=[], now_ns=now - (age + 1) * DAY
        )
        write(folder, "scalars", [numbered(0, 10)])
        if age < 4:
            folder.update(end=now - age * DAY, status="Completed")
        made.append(folder)
    return made


def names(where: Path) -> list[str]:
    return [folder.name for folder in job.jobs(str(where))]


def test_by_age(tmp_path: Path) -> None:
    now = time.time_ns()
    store(tmp_path, now)
    gone = prune(str(tmp_path), older_than_ns=3 * DAY // 2, now_ns=now)
    assert [(p.name, p.why) for p in gone] == [("age3", "ended 3.0 days ago"), ("age2", "ended 2.0 days ago")]
    assert names(tmp_path) == ["age0", "age1", "age4"]


def test_by_number(tmp_path: Path) -> None:
    now = time.time_ns()
    store(tmp_path, now)
    assert [p.name for p in prune(str(tmp_path), keep=2, now_ns=now)] == ["age3", "age2"]
    assert names(tmp_path) == ["age0", "age1", "age4"]
    assert prune(str(tmp_path), keep=0, now_ns=now)[-1].name == "age0"
    assert names(tmp_path) == ["age4"]


def test_by_size(tmp_path: Path) -> None:
    now = time.time_ns()
    one = sum(entry.size for entry in store(tmp_path, now)[0].place.files())
    gone = prune(str(tmp_path), max_bytes=int(3.5 * one), now_ns=now)
    assert [p.name for p in gone] == ["age3", "age2"]
    assert gone[0].bytes == pytest.approx(one, abs=60)
    assert prune(str(tmp_path), max_bytes=int(3.5 * one), now_ns=now) == []


def test_dry_run_deletes_nothing(tmp_path: Path) -> None:
    now = time.time_ns()
    store(tmp_path, now)
    would = prune(str(tmp_path), keep=0, dry_run=True, now_ns=now)
    assert len(would) == 4
    assert len(names(tmp_path)) == 5
    assert prune(str(tmp_path), keep=0, now_ns=now) == would


def test_a_job_without_an_end_counts_as_running_until_nothing_changed_for_a_day(tmp_path: Path) -> None:
    now = time.time_ns()
    folder = store(tmp_path, now)[4]
    (Path(folder.url) / "job.json").write_text("broken")
    assert "age4" not in [p.name for p in prune(str(tmp_path), keep=0, now_ns=now)]
    for path in [*Path(folder.url).rglob("*"), Path(folder.url)]:
        os.utime(path, ns=(now - 2 * DAY, now - 2 * DAY))
    assert [p.name for p in prune(str(tmp_path), keep=0, now_ns=now)] == ["age4"]


def test_wrong_limits(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give at least one of: older_than_ns, keep, max_bytes"):
        prune(str(tmp_path))
    with pytest.raises(ValueError, match="keep is -1"):
        prune(str(tmp_path), keep=-1)
