"""Data loaders, batch by batch and worker by worker, on spans whose story is known."""

from __future__ import annotations

import json
import math

import pytest

from holter.analysis.loading import loader_durations as durations
from holter.analysis.loading import loader_timeline as timeline
from holter.schema.table import Table

MS = 1_000_000
BASE = 1_700_000_000 * 10**9


def span(phase, begin, end, *, worker=-1, name="next batch", value=0.0, rank=0):
    fields = {"phase": phase, "worker": worker, "name": name, "value": value, "rank": rank}
    return {**fields, "time": BASE + round(begin * MS), "duration": round((end - begin) * MS), "thread": 0}


def fetch(worker, begin, end, loader=0, samples=8.0, **more):
    return span("fetch", begin, end, worker=worker, name=f"loader {loader}", value=samples, **more)


def two_workers(**more):
    """Two workers take 20 ms a batch; the training asks at 0, 20, 40, 45 and takes at 25, 30, 45, 60."""
    return [
        span("data_loading", -5, 0, name="iterator start", **more),
        fetch(0, 0, 20, **more),
        fetch(1, 5, 25, **more),
        fetch(0, 20, 40, **more),
        fetch(1, 25, 55, **more),
        fetch(0, 41, 61, **more),  # nobody took it
        span("collate", 15, 20, worker=0, name="default_collate", value=math.nan, **more),
        span("data_loading", 0, 25, **more),
        span("data_loading", 28, 30, **more),
        span("data_loading", 44, 45, **more),
        span("data_loading", 45, 60, **more),
    ]


def spans(*rows):
    return Table.of("spans", [row for part in rows for row in part])


def in_ms(table, *names):
    return [
        tuple(round((value - BASE if value > 1e15 else value) / MS) for value in row)
        for row in zip(*(table[name].tolist() for name in names), strict=True)
    ]


def test_each_batch_is_followed_from_its_worker_to_the_training():
    found = timeline.batches(spans(two_workers()))
    assert found["worker"].tolist() == [0, 1, 0, 1]
    assert found["number"].tolist() == [0, 1, 2, 3]
    assert found["samples"].tolist() == [8.0] * 4
    assert in_ms(found, "begin", "built", "asked", "taken") == [
        (0, 20, 0, 25),
        (5, 25, 28, 30),
        (20, 40, 44, 45),
        (25, 55, 45, 60),
    ]
    assert in_ms(found, "queued", "waited", "handover") == [(0, 20, 5), (3, 0, 2), (4, 0, 1), (0, 10, 5)]
    assert timeline.hidden_pct(found) == pytest.approx(100 * (1 - 30 / 90))


def test_ranks_loaders_and_epochs_are_kept_apart():
    other = [{**row, "value": 3.0} if row["phase"] == "data_loading" else row for row in two_workers()]
    other = [{**row, "name": "loader 3"} if row["phase"] == "fetch" else row for row in other]
    again = [{**row, "time": row["time"] + 100 * MS} for row in two_workers()]
    found = timeline.batches(spans(two_workers(), other, again, two_workers(rank=1)))
    keys = list(zip(*(found[name].tolist() for name in ("rank", "loader", "epoch")), strict=True))
    assert keys == [(0, 0, 1)] * 4 + [(0, 0, 2)] * 4 + [(0, 3, 1)] * 4 + [(1, 0, 1)] * 4


def test_an_epoch_whose_order_is_unknown_is_left_out():
    rows = [row for row in two_workers() if row["duration"] != 30 * MS or row["phase"] != "fetch"]
    rows = [row for row in rows if not (row["phase"] == "fetch" and row["time"] == BASE)]  # a span was lost
    late = [span("data_loading", 0, 1), fetch(0, 30, 90)]
    assert timeline.batches(spans(late)).rows == 0
    assert timeline.batches(spans(rows, late)).rows == 0
    assert timeline.hidden_pct(timeline.batches(spans([]))) is None


def test_without_workers_a_batch_is_built_while_it_is_waited_for():
    rows = [
        span("data_loading", -1, 0, name="iterator start"),
        span("data_loading", 0, 10),
        span("data_loading", 20, 30),  # its fetch was not recorded
        span("data_loading", 40, 52),
        span("fetch", 1, 9, name="fetch", value=4.0),
        span("fetch", 41, 51, name="fetch", value=4.0),
    ]
    found = timeline.batches(spans(rows))
    assert found["number"].tolist() == [0, 2]
    assert in_ms(found, "waited", "handover", "queued") == [(9, 1, 0), (11, 1, 0)]
    assert timeline.hidden_pct(found) == 0
    (worker,) = timeline.workers(spans(rows))
    assert (worker.worker, worker.loader, worker.batches, worker.samples) == (-1, 0, 2, 8)


def test_batches_in_flight():
    found = timeline.in_flight(timeline.batches(spans(two_workers())))
    at = {
        time: (b, r)
        for (time,), b, r in zip(in_ms(found, "time"), found["building"], found["ready"], strict=True)
    }
    assert at == {
        0: (1, 0),
        5: (2, 0),
        20: (2, 1),
        25: (2, 1),
        30: (2, 0),
        40: (1, 1),
        45: (1, 0),
        55: (0, 1),
        60: (0, 0),
    }
    assert timeline.in_flight(timeline.batches(spans([]))).rows == 0


def test_what_each_worker_did():
    first, second = timeline.workers(spans(two_workers()))
    assert (first.worker, first.batches, first.samples, first.fetch_median) == (0, 3, 24, 20 * MS)
    assert first.busy_pct == pytest.approx(100 * 60 / 61)
    assert first.collate_pct == pytest.approx(100 * 5 / 60)
    assert (second.batches, second.busy_pct, second.collate_pct) == (2, 100.0, 0.0)


def test_waits_and_times_between_batches_and_their_outliers():
    found = spans(two_workers())
    waits = durations.next_batches(found)
    assert (waits.count, waits.median, waits.longest) == (4, 8.5 * MS, 25 * MS)
    assert in_ms(waits.outliers, "begin", "end", "duration") == [(0, 25, 25)]
    times = durations.batch_times(found)
    assert (times.count, times.median, times.longest) == (3, 16 * MS, 28 * MS)
    assert durations.initializations(found).median == 5 * MS
    nothing = durations.batch_times(spans([]))
    assert (nothing.count, nothing.median, nothing.longest, nothing.outliers.rows) == (0, None, None, 0)


def event(kind, time, process, **detail):
    return {
        "kind": kind,
        "time": BASE + time * MS,
        "rank": 0,
        "detail": json.dumps({"process": process, **detail}),
    }


def test_how_long_workers_lived():
    rows = []
    for worker, end in enumerate((10, 11, 50)):
        key = f"p{worker}"
        rows += [
            event("process", 9, key, role="worker", worker=worker, wall=BASE),
            event("end", end, key),
            event("exit", end + 5, key),
        ]
    rows += [
        event("process", 9, "alive", role="worker", worker=3, wall=BASE),
        event("process", 9, "main", role="trainer", worker=None, wall=BASE),
        event("end", 99, "main"),
        {"kind": "process", "time": BASE, "detail": "{"},
    ]
    lives = durations.worker_lives(Table.of("events", rows))
    assert (lives.count, lives.median, lives.longest) == (3, 11 * MS, 50 * MS)
    assert lives.outliers["worker"].tolist() == [2]
    assert durations.worker_lives(Table.of("events", [])).count == 0
