"""Python functions and stacks as files of pstats and speedscope, read by pstats itself."""

from __future__ import annotations

import json
import pstats

import pytest

from holter.report.exports import Chosen, speedscope
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
    assert pstats_format.write(Trial(folder), Chosen(), output) == 8
    names = sorted(path.name for path in output.iterdir())
    assert names == [f"rank{r}-{timer}.pstats" for r in (0, 1) for timer in ("cpu_time", "total_time")]
    read = pstats.Stats(str(output / "rank0-total_time.pstats")).stats
    load, below = ("/data.py", 12, "Data.load"), ("~", 0, READ)
    assert read[load] == (2, 2, 1.0, 2.0, {})
    assert read[below] == (4, 6, 1.0, 1.0, {load: (6, 4, 1.0, 1.0)})


def test_what_was_chosen_is_exported_alone(folder, tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    chosen = Chosen(start_ns=2 * SECOND, ranks=(0,))
    assert pstats_format.write(Trial(folder), chosen, output) == 4
    assert pstats.Stats(str(output / "rank0-cpu_time.pstats")).stats["~", 0, READ][1] == 3


def test_speedscope_has_a_profile_for_each_rank_and_worker(folder, tmp_path):
    output = tmp_path / "out.json"
    assert speedscope.write(Trial(folder), Chosen(), output) == 7
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
    assert speedscope.write(trial, Chosen(), tmp_path / "out.json") == 0
    assert not (tmp_path / "out.json").exists()
