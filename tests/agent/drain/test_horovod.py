"""The timeline that Horovod writes is read while the job runs: by lines, once, and from its own time."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from holter.agent.drain.clock import Clock
from holter.agent.drain.horovod import LOOK_S, HorovodTimeline, timeline
from holter.schema.tables import TABLES

EPOCH_US = 1_700_000_000_000_000
CLOCK = Clock(0, EPOCH_US * 1000)
HEADER = [
    {"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": EPOCH_US}},
    {"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}},
    {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "grad.fc1.weight"}},
]


def line(**event) -> str:
    return json.dumps(event) + ",\n"


def begun(at: int, name: str = "NEGOTIATE_ALLREDUCE") -> str:
    return line(name=name, ph="B", pid=1, ts=at)


def ended(at: int) -> str:
    return line(ph="E", pid=1, ts=at)


@pytest.fixture
def followed(tmp_path):
    """A timeline, and what writes into its file and reads what came of it."""
    path = tmp_path / "timeline.json"
    found = HorovodTimeline(path, CLOCK)

    class Followed:
        def write(self, *texts: str, mode: str = "a") -> list[tuple]:
            with path.open(mode) as file:
                file.write("".join(texts))
            return self.rows()

        def begin(self) -> None:
            self.write("[\n", *(line(**one) for one in HEADER), mode="w")

        def rows(self) -> list[tuple]:
            self.tables = found.poll(final=True)
            table = self.tables.get("operators", {"time": []})
            at = range(len(table["time"]))
            return [
                (table["time"][i] // 1000 - EPOCH_US, table["duration"][i] // 1000, table["name"][i])
                for i in at
            ]

    one = Followed()
    one.timeline = found
    return one


def test_slices_come_when_they_end_once_and_with_the_time_of_the_file(followed):
    followed.begin()
    assert followed.write(begun(10), line(name="4", ph="X", pid=1, ts=12, dur=1)) == [(12, 1, "4")]
    assert followed.write(ended(30), begun(31, "ALLREDUCE"), begun(32, "NCCL_ALLREDUCE")) == [
        (10, 20, "NEGOTIATE_ALLREDUCE")
    ]
    assert followed.write(ended(40), ended(41)) == [(31, 10, "ALLREDUCE"), (32, 8, "NCCL_ALLREDUCE")]
    assert followed.rows() == []
    assert followed.write(line(name="CYCLE_START", ph="i", pid=0, ts=50, s="g")) == [(50, 0, "CYCLE_START")]
    assert followed.tables["operators"]["kind"] == ["annotation"]


def test_rows_fit_the_tables_and_name_their_tensor(followed):
    followed.begin()
    (names,) = [followed.tables["tracks"]["name"]]
    assert names == ["grad.fc1.weight"]
    followed.write(begun(1), ended(2))
    assert json.loads(followed.tables["operators"]["detail"][0]) == {"tensor": "grad.fc1.weight"}
    for table, columns in followed.tables.items():
        assert columns.keys() <= {one.name for one in TABLES[table].columns}
        assert len({len(column) for column in columns.values()}) == 1


def test_half_a_line_waits_for_its_other_half(followed):
    followed.begin()
    text = line(name="ALLREDUCE", ph="X", pid=1, ts=5, dur=2)
    assert followed.write(text[:20]) == []
    assert followed.write(text[20:]) == [(5, 2, "ALLREDUCE")]


def test_what_is_no_event_costs_itself(followed):
    followed.begin()
    bad = (
        "no JSON\n",
        "[1, 2],\n",
        line(ph="B"),
        line(ph="X", pid=1, ts="now", dur=1),
        line(ph="E", pid=9, ts=1),
    )
    assert followed.write(*bad, line(name="a", ph="X", pid=1, ts=1, dur=1)) == [(1, 1, "a")]


def test_a_file_begun_anew_is_read_from_its_begin(followed):
    followed.begin()
    followed.write(*(begun(at) + ended(at + 1) for at in range(50)))
    followed.begin()
    assert followed.write(ended(3), begun(7), ended(9)) == [(7, 2, "NEGOTIATE_ALLREDUCE")]


def test_what_another_job_left_is_not_this_jobs(tmp_path):
    path = tmp_path / "timeline.json"
    path.write_text("[\n" + "".join(line(**one) for one in HEADER) + begun(1) + ended(2))
    found = HorovodTimeline(path, CLOCK)
    assert found.poll(final=True) == {}
    path.write_text("[\n" + line(name="new", ph="X", pid=1, ts=1, dur=1))
    assert found.poll(final=True)["operators"]["name"] == ["new"]


def test_times_of_the_monotonic_clock_are_told_apart(tmp_path):
    import time

    clock = Clock.now()
    for first, expected in (
        (time.monotonic_ns() // 1000, time.time_ns()),  # as old versions write
        (8_000_000, time.time_ns()),  # since Horovod began, which is not said: now, then
    ):
        path = tmp_path / f"{first}.json"
        found = HorovodTimeline(path, clock)
        path.write_text("[\n" + line(name="x", ph="X", pid=1, ts=first, dur=1))
        (at,) = found.poll(final=True)["operators"]["time"]
        assert abs(at - expected) < 5e9


def test_which_file_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert timeline({}, CLOCK) is None
    assert timeline({"HOROVOD_TIMELINE": "DYNAMIC"}, CLOCK) is None
    assert timeline({"HOROVOD_TIMELINE": "t.json"}, CLOCK).path == Path(tmp_path / "t.json")
    assert LOOK_S >= 1


def test_a_real_timeline_that_grows_gives_what_its_import_gives(followed):
    data = Path(os.environ.get("HOLTER_DATA", "../shared/data"))
    if not data.is_dir():
        pytest.skip(f"{data} is not here; HOLTER_DATA names the folder of real traces")
    found = []
    for path in sorted((data / "sagemaker/horovod_timeline_traces").rglob("*horovod_timeline.json")):
        followed.write(path.read_text())
        table = followed.tables["operators"]
        found += [at for at, kind in zip(table["time"], table["kind"], strict=True) if kind == "operator"]
    assert len(found) == 19
    assert min(found) == 1592860696000713 * 1000


WRITES = """
import sys, time
with open(sys.argv[1], "w", buffering=1) as file:
    file.write("[\\n")
    for step in range(200):
        now = time.monotonic_ns() // 1000
        file.write('{"name": "ALLREDUCE", "ph": "X", "pid": 1, "ts": %d, "dur": 7},\\n' % now)
        time.sleep(0.02)
"""


def test_a_job_that_writes_one_has_it_in_its_store(start, tmp_path):
    path = tmp_path / "timeline.json"
    run = start(sys.executable, "-c", WRITES, str(path), env={"HOROVOD_TIMELINE": str(path)})
    assert run.wait() == 0
    table = run.trial.table("operators")
    assert len(table) == 200
    (told,) = run.events("exit")
    assert all(0 < told["time"] - at < 60e9 for at in table["time"].tolist())
