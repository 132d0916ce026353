"""The writer: when it writes, and what it does while the store cannot be written: it never raises."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
from tests.store.strategies import columns, new_job, numbered

from holter.store import writer as writing
from holter.store.layout import parse_part
from holter.store.trial import Trial
from holter.store.writer import Writer


def append(writer: Writer, first: int, count: int) -> None:
    writer.append("scalars", columns(numbered(first, count)))


def test_a_file_is_written_when_enough_rows_wait(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    writer = Writer(folder, "n0")
    writer.append(
        "samples", {"time": np.arange(writing.MAX_ROWS - 1), "metric": (np.zeros(49_999, int), ["m"])}
    )
    assert folder.place.files("samples") == []
    writer.append("samples", {"time": [1]})
    (entry,) = folder.place.files("samples")
    assert writer.waiting == 0
    assert entry.size > 0


def test_a_file_is_written_when_rows_waited_long_enough(tmp_path: Path) -> None:
    now = [100.0]
    folder = new_job(tmp_path)
    writer = Writer(folder, "n0", clock=lambda: now[0])
    ages = []
    for n in range(20):
        append(writer, n, 1)
        began = now[0]
        while writer.waiting:
            now[0] += 1.0
            writer.poll()
        ages.append(now[0] - began)
    assert ages[:12] == [5.0] * 12
    assert ages[-1] == 60.0
    assert ages == sorted(ages)
    append(writer, 1000, writing.ENOUGH_ROWS)
    now[0] += 4.0
    writer.poll()
    assert writer.waiting == writing.ENOUGH_ROWS
    now[0] += 1.0
    writer.poll()
    assert writer.waiting == 0


def test_while_somebody_looks_rows_wait_a_second_but_ever_longer_with_ever_more_files(tmp_path: Path) -> None:
    now = [100.0]
    writer = Writer(new_job(tmp_path), "n0", clock=lambda: now[0])
    writer.files_written["scalars"] = 100  # by its age alone it would wait a minute
    writer.watched = True
    for files, least, most in ((100, 0.7, 1.0), (6 * writing.WATCHED_FILES, 5.5, 6.0)):
        writer.files_written["scalars"] = files
        append(writer, files, 1)
        now[0] += least
        writer.poll()
        assert writer.waiting == 1
        now[0] += most - least
        writer.poll()
        assert writer.waiting == 0


def test_a_writer_goes_on_after_another(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    for n in range(3):
        writer = Writer(folder, "n0")
        append(writer, n, 1)
        writer.close()
    numbers = [p.first for e in folder.place.files("scalars") if (p := parse_part(e.key))]
    assert sorted(numbers) == [0, 1, 2]


def test_two_writers_of_one_node_never_take_the_same_number(tmp_path: Path) -> None:
    folder = new_job(tmp_path)

    def write(first: int) -> None:
        writer = Writer(folder, "n0")
        for n in range(first, first + 30):
            append(writer, n, 1)
            assert writer.flush(), writer.fault
        writer.close()

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [p.first for e in folder.place.files("scalars") if (p := parse_part(e.key))]
    assert sorted(numbers) == list(range(60))
    assert Trial(folder).table("scalars").rows == 60


def test_a_store_that_vanished_and_one_that_cannot_be_written(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    writer = Writer(folder, "n0", max_waiting_rows=10)
    (Path(folder.url) / "scalars").write_text("a file where the folder should be")
    append(writer, 0, 6)
    assert not writer.flush()
    assert writer.fault is not None
    assert writer.fault.startswith("scalars: ")
    append(writer, 6, 6)
    append(writer, 12, 6)
    append(writer, 18, 6)
    assert (writer.waiting, writer.dropped, writer.faults) == (12, {"scalars": 12}, 1)
    (Path(folder.url) / "scalars").unlink()
    assert writer.flush()
    assert writer.fault is None
    assert Trial(folder).table("scalars")["step"].tolist() == list(range(12))
    shutil.rmtree(folder.url)
    append(writer, 30, 3)
    assert not writer.close()
    assert "is gone" in (writer.fault or "")
    assert writer.dropped == {"scalars": 15}
    assert not Path(folder.url).exists()


def test_no_draft_is_left_behind(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    writer = Writer(folder, "n0")
    for n in range(3):
        append(writer, n, 1)
        writer.flush()
    writer.close()
    assert [p.name for p in Path(folder.url).rglob("*") if p.name.startswith(".") or "tmp" in p.name] == []


FULL = """
import resource, sys
import numpy as np
from holter.store import job
from holter.store.trial import Trial
from holter.store.writer import Writer

folder = job.create(sys.argv[1], "job", command=["true"], interval_ms=500, rules=[], now_ns=1)
writer = Writer(folder, "n0")
values = np.random.default_rng(0).integers(0, 2**52, 40_000).astype(float)
writer.append("samples", {"time": np.arange(40_000), "value": values, "metric": ["m"] * 40_000})
no_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, no_limit[1]))
assert writer.flush() is False
assert writer.fault and writer.waiting == 40_000, writer.fault
assert folder.place.files("samples") == []
resource.setrlimit(resource.RLIMIT_FSIZE, no_limit)
assert writer.flush() and writer.fault is None, writer.fault
assert (Trial(folder).table("samples")["value"] == values).all()
assert [p for p in folder.place.path.rglob(".*")] == []
"""


def test_no_room_left_while_a_file_is_written(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_listing_jobs_needs_neither_numpy_nor_duckdb() -> None:
    code = (
        "import sys, holter.store.job; print([m for m in ('numpy', 'duckdb', 'obstore') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
