"""Python functions and stacks as files of pstats and speedscope, read by pstats itself."""

from __future__ import annotations

import json
import pstats

import pytest

from holter.report.exports import ExportSelection, speedscope
from holter.report.exports import pstats as pstats_format
from holter.store.job import create
from holter.store.trial import Trial
from holter.store.writer import Writer

SECOND = 10**9
LOAD, READ = "Data.load (/data.py:12)", "<built-in method read>"


@pytest.fixture
def folder(tmp_path):
    folder = create(str(tmp_path), "job", command=["x"], interval_ms=500, rules=[], now_ns=SECOND)
    writer = Writer(folder, "n0")
    for rank, step in ((0, 1), (0, 2), (1, 1)):
        shared = {"rank": [rank] * 2, "step": [step] * 2, "time": [step * SECOND] * 2}
        for timer in ("total_time", "cpu_time"):
            counts = {"calls": [1, 3], "primitive_calls": [1, 2], "total_time": [SECOND, SECOND // 2]}
            rows = {"function": [LOAD, READ], "self_time": [SECOND // 2] * 2, "timer": [timer] * 2}
            writer.append("python_functions", {**shared, **counts, **rows, "duration": [SECOND] * 2})
            edge = {"caller": [LOAD], "function": [READ], "timer": [timer], "self_time": [SECOND // 2]}
            first = {name: values[1:] for name, values in (shared | counts).items()}
            writer.append("python_calls", {**first, **edge})
        stacks = {"stack": [f"{LOAD};{READ}", LOAD], "samples": [2, 1], "self_time": [20, 10]}
        writer.append("python_stacks", {**shared, **stacks, "duration": [SECOND] * 2})
    worker = {
        "rank": [0],
        "worker": [1],
        "time": [SECOND],
        "duration": [7],
        "phase": ["stack"],
        "name": [LOAD],
    }
    writer.append("spans", worker)
    writer.close()
    return folder


def test_pstats_reads_one_file_for_each_rank_and_timer(folder, tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    assert pstats_format.write(Trial(folder), ExportSelection(), output) == 8
    names = sorted(path.name for path in output.iterdir())
    assert names == [f"rank{r}-{timer}.pstats" for r in (0, 1) for timer in ("cpu_time", "total_time")]
    read = pstats.Stats(str(output / "rank0-total_time.pstats")).stats
    load, below = ("/data.py", 12, "Data.load"), ("~", 0, READ)
    assert read[load] == (2, 2, 1.0, 2.0, {})
    assert read[below] == (4, 6, 1.0, 1.0, {load: (6, 4, 1.0, 1.0)})


def test_what_was_chosen_is_exported_alone(folder, tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    chosen = ExportSelection(start_ns=2 * SECOND, ranks=(0,))
    assert pstats_format.write(Trial(folder), chosen, output) == 4
    assert pstats.Stats(str(output / "rank0-cpu_time.pstats")).stats["~", 0, READ][1] == 3


def test_speedscope_has_a_profile_for_each_rank_and_worker(folder, tmp_path):
    output = tmp_path / "out.json"
    assert speedscope.write(Trial(folder), ExportSelection(), output) == 7
    document = json.loads(output.read_text())
    assert document["shared"]["frames"] == [
        {"name": "Data.load", "file": "/data.py", "line": 12},
        {"name": READ},
    ]
    shown = {one["name"]: (one["samples"], one["weights"]) for one in document["profiles"]}
    assert shown == {
        "rank 0: sampled": ([[0, 1], [0], [0, 1], [0]], [20, 10, 20, 10]),
        "rank 1: sampled": ([[0, 1], [0]], [20, 10]),
        "rank 0: loader worker 1": ([[0]], [7]),
    }
    assert [one["endValue"] for one in document["profiles"]] == [60, 30, 7]


def test_nothing_to_export_writes_nothing(tmp_path):
    trial = Trial(create(str(tmp_path), "empty", command=["x"], interval_ms=500, rules=[], now_ns=SECOND))
    assert speedscope.write(trial, ExportSelection(), tmp_path / "out.json") == 0
    assert not (tmp_path / "out.json").exists()


def accepted(document):
    """Say what https://www.speedscope.app/file-format-schema.json says of a file."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(document) <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    frames = document["shared"]["frames"]
    kinds = {"name": str, "file": str, "line": int, "col": int}
    for frame in frames:
        assert "name" in frame
        assert all(type(value) is kinds[key] for key, value in frame.items())
    assert document["profiles"][document["activeProfileIndex"]]
    for profile in document["profiles"]:
        shared = {"type", "name", "unit", "startValue", "endValue"}
        assert profile["unit"] in {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}
        assert profile["startValue"] <= profile["endValue"]
        if profile["type"] == "sampled":
            assert set(profile) == shared | {"samples", "weights"}
            assert len(profile["samples"]) == len(profile["weights"])
            assert all(0 <= frame < len(frames) for stack in profile["samples"] for frame in stack)
            continue
        assert profile["type"] == "evented"
        assert set(profile) == shared | {"events"}
        opened, last = [], profile["startValue"]
        for event in profile["events"]:
            assert set(event) == {"type", "frame", "at"}
            assert last <= event["at"] <= profile["endValue"]
            last = event["at"]
            if event["type"] == "O":
                assert 0 <= event["frame"] < len(frames)
                opened.append(event["frame"])
            else:
                assert opened.pop() == event["frame"]
        assert opened == []


def test_speedscope_takes_the_file(folder, tmp_path):
    output = tmp_path / "out.speedscope.json"
    speedscope.write(Trial(folder), ExportSelection(), output)
    accepted(json.loads(output.read_text()))


def test_threads_of_a_trace_call_by_call(tmp_path):
    folder = create(str(tmp_path), "trace", command=["x"], interval_ms=500, rules=[], now_ns=SECOND)
    writer = Writer(folder, "n0")
    calls = [
        ("forward", 0, 100, "annotation"),
        ("aten::linear", 10, 50, "operator"),
        ("aten::addmm", 10, 40, "operator"),
        ("too long", 45, 30, "operator"),  # no thread does that: it is cut where the one around it ends
        ("instant", 60, 0, "operator"),
        ("stream range", 0, 100, "device_annotation"),
    ]
    names, begins, lengths, kinds = (list(column) for column in zip(*calls, strict=True))
    times = [SECOND + begin for begin in begins]
    writer.append(
        "operators",
        {
            "time": times,
            "duration": lengths,
            "name": names,
            "kind": kinds,
            "thread": [7] * 6,
            "rank": [2] * 6,
        },
    )
    launch = {
        "time": [SECOND + 20],
        "duration": [5],
        "name": ["cudaLaunchKernel"],
        "thread": [7],
        "rank": [2],
    }
    writer.append("launches", launch)
    writer.close()
    output = tmp_path / "out.speedscope.json"
    assert speedscope.write(Trial(folder), ExportSelection(), output) == 6
    document = json.loads(output.read_text())
    accepted(document)
    (profile,) = document["profiles"]
    assert profile["name"] == "rank 2: thread 7"
    assert profile["endValue"] == 100
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    assert [f"{e['type']}{e['at']} {frames[e['frame']]}" for e in profile["events"]] == [
        "O0 forward",
        "O10 aten::linear",
        "O10 aten::addmm",
        "O20 cudaLaunchKernel",
        "C25 cudaLaunchKernel",
        "O45 too long",
        "C50 too long",
        "C50 aten::addmm",
        "C60 aten::linear",
        "O60 instant",
        "C60 instant",
        "C100 forward",
    ]
    assert speedscope.write(Trial(folder), ExportSelection(ranks=(0,)), output) == 0
