"""Files of a folder are read by other processes: the same rows in the same order; a fault costs one file."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from holter.importers import UnreadableError, import_paths
from holter.importers.executors import LostTaskError, UnknownExecutorError, executor, in_order
from holter.importers.reading import _worth_processes
from holter.schema.tables import TABLES
from holter.store.job import create
from holter.store.trial import Trial

TWO = partial(executor, "processes:2")


def squared(item: tuple[int, str]) -> int:
    """Return the square; end this process for an item that says so, the first time or always."""
    number, mark = item
    if mark == "always" or (mark and not Path(mark).exists()):
        if mark != "always":
            Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def test_results_come_in_order_and_a_lost_worker_costs_only_its_item(tmp_path: Path) -> None:
    items = [(at, {2: str(tmp_path / "once"), 5: "always"}.get(at, "")) for at in range(8)]
    found = dict(in_order(TWO, squared, items, at_once=3))
    assert list(found) == items
    assert isinstance(found.pop(items[5]), LostTaskError)
    assert [found[item] for item in items if item in found] == [0, 1, 4, 9, 16, 36, 49]


def test_items_are_taken_as_they_are_needed() -> None:
    taken = []

    def items():
        for at in range(6):
            taken.append(at)
            yield at, ""

    results = in_order(TWO, squared, items(), at_once=2)
    next(results)
    assert taken == [0, 1]
    results.close()


@pytest.fixture
def folder(tmp_path: Path, written) -> Path:
    """A folder with traces of three ranks, one of which has enough rows for the disk, and a damaged one."""
    (tmp_path / "run").mkdir()
    for rank, count in enumerate((50, 40_000, 70)):
        events = [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": f"op{at % 7}",
                "pid": 1,
                "tid": 1 + at % 2,
                "ts": 10 * at,
                "dur": 5,
            }
            for at in range(count)
        ]
        written(events, f"run/rank{rank}.json")
    (tmp_path / "run" / "rank9.json").write_text('{"traceEvents": [{"ph": "X", "ts": ')
    return tmp_path / "run"


def test_the_same_job_as_by_one_process(tmp_path: Path, folder: Path) -> None:
    jobs, reports = {}, {}
    for on in ("here", "processes:2"):
        store = str(tmp_path / on.replace(":", "-"))
        made = create(store, "a", command=["x"], interval_ms=500, rules=[], now_ns=1)
        reports[on] = import_paths([folder], made, on=on)
        jobs[on] = Trial(made)
    here, apart = reports["here"].document(), reports["processes:2"].document()
    assert apart == here
    assert any("rank9" in file for file in apart["skipped"])
    for table in TABLES:
        one, other = (jobs[on].table(table) for on in jobs)
        assert one.rows == other.rows
        for name in one.names:
            assert np.array_equal(one[name], other[name]), (table, name)


def test_progress_is_told_by_file(tmp_path: Path, folder: Path) -> None:
    made = create(str(tmp_path / "store"), "a", command=["x"], interval_ms=500, rules=[], now_ns=1)
    told: list[tuple[str, int, int]] = []
    import_paths([folder], made, on="processes:2", on_progress=lambda *one: told.append(one))
    assert [Path(file).name for file, _, _ in told] == [f"rank{rank}.json" for rank in (0, 1, 2, 9)]


def test_archives_are_not_read_by_other_processes(tmp_path: Path, folder: Path) -> None:
    (folder / "more.zip").write_bytes(b"PK")
    made = create(str(tmp_path / "store"), "a", command=["x"], interval_ms=500, rules=[], now_ns=1)
    with pytest.raises(UnreadableError, match="unpack it, or leave out --on"):
        import_paths([folder], made, on="processes")


@pytest.mark.parametrize("on", ["cluster", "processes:0", "processes:x", "dask:", "ray:x"])
def test_an_executor_that_is_none_is_refused(on: str) -> None:
    with pytest.raises(UnknownExecutorError, match="valid: here, processes"):
        executor(on)


def test_small_files_are_read_here(folder: Path) -> None:
    assert not _worth_processes(sorted(folder.iterdir()))
