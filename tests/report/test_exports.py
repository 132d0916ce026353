"""Exports of a job: the same events read back, files put in place in one piece, parts of a job."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter, defaultdict

import duckdb
import numpy as np
import pytest
from benchmarks.generated_trace import START_NS, STEP_NS, write
from tests.report.protobuf import perfetto
from tests.report.reading_back import EVENT_TABLES, back, rows

from holter.cli import main
from holter.report.exports import formats
from holter.schema.tables import TABLES
from holter.store.job import create
from holter.store.trial import Trial
from holter.store.writer import Writer


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A trace of two ranks with system metrics, phases and steps."""
    folder = write(str(tmp_path_factory.mktemp("store")), "trace", 12_000, ranks=2, layers=12)
    writer = Writer(folder, "n0")
    times = START_NS + np.arange(50) * STEP_NS
    writer.append(
        "samples",
        {
            "time": times,
            "device": ["gpu0"] * 50,
            "metric": ["gpu.util"] * 50,
            "value": np.arange(50) / 3,
        },
    )
    for rank in (0, 1):
        for phase, shift, duration in (("step", 0, STEP_NS), ("forward", 10, 1000), ("scalar", 5, 0)):
            writer.append(
                "spans",
                {
                    "time": times + shift,
                    "duration": [duration] * 50,
                    "rank": [rank] * 50,
                    "worker": [-1] * 50,
                    "thread": [0] * 50,
                    "step": np.arange(50),
                    "mode": ["train"] * 50,
                    "phase": [phase] * 50,
                    "name": ["Net" if phase == "forward" else ""] * 50,
                },
            )
    writer.close()
    return folder


def exported(holter_job, form, where, *words):
    output = where / f"out{formats()[form].SUFFIX}"
    assert main(["export", holter_job.url, "--format", form, "-o", str(output), *words]) == 0
    return output


def test_what_is_exported_as_chrome_json_is_imported_as_the_same_events(job, tmp_path):
    again = back(exported(job, "chrome", tmp_path, "--rank", "1"), tmp_path)
    for table in EVENT_TABLES:
        own = rows(Trial(job), table, "rank = 1")
        assert own
        told = rows(again, table)
        if table == "operators":  # phases come back as annotations
            phases = [row for row in told if row["kind"] == "annotation" and row["thread"] < 2000]
            assert Counter(row["name"] for row in phases) == {"step": 50, "forward: Net": 50}
            told = [row for row in told if row not in phases]
        if table == "counters":  # and so do system metrics, as counters
            told = [row for row in told if not row["name"].startswith("gpu.util")]
        assert told == own, table


def test_chrome_events_are_in_order_and_both_ranks_are_kept_apart(job, tmp_path):
    document = json.loads(exported(job, "chrome", tmp_path).read_text())
    assert "distributedInfo" not in document
    events = [event for event in document["traceEvents"] if event["ph"] != "M"]
    times = [event["ts"] for event in events]
    assert times == sorted(times)
    names = {e["pid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"}
    assert Counter(name.split(":")[0] for name in names.values()) == {"rank 0": 3, "rank 1": 3, "n0": 1}
    for event in events:
        assert event["pid"] in names
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"
    }
    assert sorted(threads.values()) == sorted(
        ["main", "pt_autograd_0", "stream 7", "stream 20 nccl", "training"] * 2
    )
    starts = Counter(e["id"] for e in events if e["ph"] == "s" and e["cat"] == "ac2g")
    assert starts == Counter(e["id"] for e in events if e["ph"] == "f" and e["cat"] == "ac2g")
    assert max(starts.values()) == 1


def test_perfetto_tracks_slices_counters_and_arrows(job, tmp_path):
    tracks, slices, values = perfetto(exported(job, "perfetto", tmp_path).read_bytes())
    trial = Trial(job)
    wanted = Counter()
    for table in ("kernels", "launches", "syncs", "operators"):
        for row in trial.table(table).to_rows():
            wanted[row["time"], row["time"] + row["duration"], row["name"]] += 1
    told = Counter(slice_[1:4] for slice_ in slices)
    assert wanted <= told
    assert Counter(name for _, _, name in (told - wanted).elements()) == {
        "h2d": trial.rows("memory_operations"),
        "step": 100,
        "forward: Net": 100,
    }
    # On each track slices are nested.
    by_track = defaultdict(list)
    for track, begin, end, _, _ in slices:
        by_track[track].append((begin, -end))
    for listed in by_track.values():
        around = []
        for begin, end in sorted(listed):
            while around and around[-1] <= begin:
                around.pop()
            assert not around or -end <= around[-1]
            around.append(-end)
    ends = defaultdict(list)
    for _, begin, _, name, arrows in slices:
        for is_end, number in arrows:
            ends[number].append((is_end, begin, name))
    assert all(sorted(is_end for is_end, _, _ in pair) == [False, True] for pair in ends.values())
    assert len(ends) == trial.rows("launches") + trial.rows("flows")
    names = {number: track.get(2, b"").decode() for number, track in tracks.items()}
    assert {name for name in names.values() if "overlapping" not in name} >= {
        "main",
        "stream 7",
        "memory/gpu0",
    }
    told = sorted((at, value) for track, at, value in values if names[track] == "memory/gpu1")
    own = trial.table("counters", where="rank = 1")
    assert told == sorted(zip(own["time"].tolist(), own["value"].tolist(), strict=True))


def test_slices_that_only_overlap_are_put_beside(tmp_path):
    folder = create(str(tmp_path), "job", command=[], interval_ms=500, rules=[], now_ns=1)
    writer = Writer(folder, "n0")
    given_ = {
        "time": [100, 150, 170, 300],
        "duration": [100, 100, 100, 5],
        "rank": [0] * 4,
        "device": [0] * 4,
    }
    writer.append(
        "kernels", {**given_, "stream": [7] * 4, "name": ["a", "b", "c", "d"], "kind": ["compute"] * 4}
    )
    writer.close()
    _, slices, _ = perfetto(exported(folder, "perfetto", tmp_path).read_bytes())
    assert sorted(slice_[1:4] for slice_ in slices) == [
        (100, 200, "a"),
        (150, 250, "b"),
        (170, 270, "c"),
        (300, 305, "d"),
    ]
    assert len({slice_[0] for slice_ in slices}) == 3


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_no_text_of_a_csv_file_is_a_formula(begin, tmp_path, capsys):
    folder = create(str(tmp_path / "store"), "j", command=[], interval_ms=500, rules=[], now_ns=START_NS)
    formula = f"{begin}cmd|'/C calc'!A0.weight"
    names = [formula, "-3.5", "+1e5", "loss", "a=b", "-", ""]
    writer = Writer(folder, "=n0")
    values = [-3.5, 1.0, 2.0, -0.25, 4.0, 5.0, 6.0]
    times = START_NS + np.arange(len(names))
    writer.append("scalars", {"time": times, "name": names, "value": values, "rank": [-1] * len(names)})
    writer.close()
    with (exported(folder, "csv", tmp_path / "csv") / "scalars.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["name"] for row in found] == [f"'{formula}", "-3.5", "+1e5", "loss", "a=b", "'-", ""]
    assert [float(row["value"]) for row in found] == values
    assert {row["node"] for row in found} == {"'=n0"}
    assert {row["rank"] for row in found} == {"-1"}
    there = duckdb.sql(f"SELECT name FROM '{exported(folder, 'parquet', tmp_path / 'p')}/scalars.parquet'")
    assert sorted(there.fetchnumpy()["name"].tolist()) == sorted(names)


def test_tables_as_csv_parquet_and_json(job, tmp_path, capsys):
    trial = Trial(job)
    counts = {name: trial.rows(name) for name in TABLES if name != "tiles" and trial.rows(name)}
    folder = exported(job, "csv", tmp_path / "csv")
    for name, count in counts.items():
        with (folder / f"{name}.csv").open(newline="") as file:
            assert len(list(csv.DictReader(file))) == count
    assert sorted(path.stem for path in folder.iterdir()) == sorted(counts)
    folder = exported(job, "parquet", tmp_path / "parquet", "--rank", "0", "--seconds", "0:1")
    times = duckdb.sql(f"SELECT time, rank FROM '{folder}/kernels.parquet'").fetchnumpy()
    own = trial.table("kernels", where="rank = 0", end_ns=START_NS + 10**9)
    assert times["time"].tolist() == own["time"].tolist()
    capsys.readouterr()
    output = exported(job, "json", tmp_path)
    document = json.loads(output.read_text())
    assert {name: len(listed) for name, listed in document["tables"].items() if listed} == counts
    assert document["job"]["name"] == "trace"
    assert document["tables"]["kernels"][5] == next(iter(trial.table("kernels").where([5]).to_rows()))
    assert document["tables"]["spans"][0]["value"] is None
    assert f"{sum(counts.values()):,} rows or values" in capsys.readouterr().out


def test_a_part_by_steps(job, tmp_path):
    document = json.loads(exported(job, "chrome", tmp_path, "--steps", "2:4", "--rank", "0").read_text())
    begin, end = START_NS + 2 * STEP_NS, START_NS + 4 * STEP_NS
    chosen = [e for e in document["traceEvents"] if e["ph"] == "X"]
    own = Trial(job).table("operators", where="rank = 0", start_ns=begin, end_ns=end)
    assert sum(e["cat"] in ("cpu_op", "python_function") for e in chosen) == int(
        np.sum(own["kind"] != "annotation")
    )
    assert document["baseTimeNanoseconds"] == begin


def test_idle_gpus_are_marked_with_what_else_was_read(job, tmp_path):
    document = json.loads(exported(job, "chrome", tmp_path, "--low-gpu", "10").read_text())
    marks = [e for e in document["traceEvents"] if e["name"] == "sys_metrics_bottlenecks"]
    assert [mark["args"] for mark in marks] == [{"gpu.util gpu0": pytest.approx(n / 3)} for n in range(30)]
    plain = json.loads(exported(job, "chrome", tmp_path, "--force").read_text())
    assert len(document["traceEvents"]) == len(plain["traceEvents"]) + 30


def test_refusals_and_nothing_left_behind(job, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    there = tmp_path / "there.json"
    there.write_text("mine")
    (tmp_path / "folder").mkdir()
    refusals = {
        ("--format", "perfeto"): "did you mean 'perfetto'",
        ("--format", "json", "-o", "there.json"): "--force",
        ("--format", "json", "-o", "folder"): "is a folder",
        ("--format", "csv"): "--output is required",
        ("--format", "csv", "-o", "there.json", "--force"): "not an empty folder",
        ("--format", "chrome", "--rank", "7"): "no rank 7; it has 0, 1",
        ("--format", "chrome", "--rank", "x"): "not a list of ranks",
        ("--format", "chrome", "--steps", "5"): "is not a range",
        ("--format", "chrome", "--steps", "900:"): "the job has steps 0 to 49",
        ("--format", "chrome", "--seconds", "5:1"): "ends before it begins",
        ("--format", "chrome", "--seconds", "1:2", "--steps", "1:2"): "give one of them",
    }
    for words, why in refusals.items():
        assert main(["export", job.url, *words]) == 64, words
        assert why in capsys.readouterr().err
    assert main(["export", job.url, "--format", "chrome", "--seconds", "5000:"]) == 65
    assert "in the selected part" in capsys.readouterr().err
    assert there.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "there.json"]
    assert main(["export", job.url, "--format", "json", "-o", "there.json", "--force"]) == 0
    assert json.loads(there.read_text())["job"]["name"] == "trace"
    assert main(["export", job.url, "--format", "chrome", "-o", "small.json.gz"]) == 0
    assert len(json.loads(gzip.decompress((tmp_path / "small.json.gz").read_bytes()))["traceEvents"]) > 10_000
    assert main(["export", job.url, "--format", "perfetto"]) == 0
    assert (tmp_path / "trace.perfetto-trace").stat().st_size > 1000
    assert len(list(tmp_path.iterdir())) == 4


def test_each_format_says_what_it_is():
    known = formats()
    assert {"perfetto", "chrome", "csv", "parquet", "json", "tensorboard"} <= set(known)
    for name, form in known.items():
        assert form.ABOUT, name
        assert "{output}" in form.SHOW
        assert form.SUFFIX == "" or form.SUFFIX.startswith(".")
        assert form.NEEDS
        assert form.write.__doc__
