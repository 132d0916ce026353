"""Records become rows: once, complete, with the right names and ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.agent.spool import Writer

from holter.agent.drain.clock import Clock
from holter.agent.drain.drain import Drain
from holter.schema import record
from holter.schema.phases import Mode, Phase


@pytest.fixture
def drain(tmp_path):
    return Drain(tmp_path, Clock.now())


def collect(drain: Drain, polls: int = 4, **options) -> tuple[list[dict], list[dict], list]:
    spans, scalars, events = [], [], []
    for _ in range(polls):
        batch = drain.poll(**options)
        spans += rows(batch.spans)
        scalars += rows(batch.scalars)
        events += batch.events
    return spans, scalars, events


def rows(columns) -> list[dict]:
    plain = {}
    for name, column in columns.items():
        plain[name] = [column[1][c] for c in column[0]] if isinstance(column, tuple) else column.tolist()
    return [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]


def test_records_become_rows(tmp_path, drain):
    trainer = Writer(tmp_path, rank=3)
    trainer.steps(5)
    spans, scalars, events = collect(drain)
    assert [s["step"] for s in spans if s["phase"] == "step"] == [0, 1, 2, 3, 4]
    forward = [s for s in spans if s["phase"] == "forward"]
    assert {s["name"] for s in forward} == {"Net"}
    assert {s["rank"] for s in spans} == {3}
    assert {s["worker"] for s in spans} == {-1}
    assert {s["mode"] for s in spans} == {"train"}
    assert [s["value"] for s in scalars] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])
    assert {s["name"] for s in scalars} == {"loss"}
    assert [e.kind for e in events] == ["process"]
    now = time.time_ns()
    assert all(now - 60e9 < s["time"] <= now for s in spans)


def test_a_number_has_the_step_that_was_logged_and_a_damaged_one_has_none(tmp_path, drain):
    trainer = Writer(tmp_path, rank=0)
    steps = (-1, 0, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 15 * 10**12)
    now = time.monotonic_ns()
    for step in steps:
        low = (step + 2**31) % 2**32 - 2**31
        trainer.put(Phase.SCALAR, now, record.scalar_duration(step), step=low, value=1.0)
    trainer.put(Phase.SCALAR, now, 2**40, step=1, value=1.0)
    trainer.put(Phase.SCALAR, now, -7, step=1, value=1.0)
    _, scalars, _ = collect(drain)
    assert [one["step"] for one in scalars] == [*steps, -1, -1]


def test_each_record_comes_once_however_often_it_is_polled(tmp_path, drain):
    trainer = Writer(tmp_path, rank=0)
    seen = []
    for i in range(20):
        trainer.steps(3, first=3 * i)
        spans, _, _ = collect(drain, polls=i % 3)
        seen += [s["step"] for s in spans if s["phase"] == "step"]
    spans, _, _ = collect(drain)
    seen += [s["step"] for s in spans if s["phase"] == "step"]
    assert seen == list(range(60))


def test_a_record_waits_until_it_was_seen_complete_before(tmp_path, drain):
    trainer = Writer(tmp_path, rank=0)
    drain.poll()
    trainer.put(Phase.FORWARD, 1, 2)
    assert drain.poll().rows == 0
    assert drain.poll().rows == 1


def test_an_unfinished_record_is_never_taken(tmp_path, drain):
    trainer = Writer(tmp_path, rank=0)
    trainer.steps(1)
    trainer.put(Phase.FORWARD, 1, 2, raw=record.RECORD.pack(1, 2, 0.0, 0, 0, 1, 1)[:-1] + b"\0")
    spans, scalars, _ = collect(drain)
    assert len(spans) + len(scalars) == 4
    assert drain.poll(final=True).rows == 0


def test_full_segments_are_given_up_and_the_current_one_is_kept(tmp_path, drain):
    trainer = Writer(tmp_path, rank=0)
    raw = record.RECORD.pack(time.monotonic_ns(), 1, 0.0, 7, 0, 1, Phase.FORWARD) * record.SEGMENT_RECORDS
    for number in range(3):
        (tmp_path / record.segment_name(trainer.key, 0, number)).write_bytes(raw)
    trainer.written = 3 * record.SEGMENT_RECORDS
    trainer.put(Phase.FORWARD, 1, 2)
    total = sum(drain.poll().rows for _ in range(30))
    assert total == 3 * record.SEGMENT_RECORDS + 1
    assert len(list(tmp_path.glob("*.seg"))) == 4, "nobody has stored the records yet"
    for path, _ in drain.spent():
        path.unlink()
    assert [p.name for p in tmp_path.glob("*.seg")] == [record.segment_name(trainer.key, 0, 3)]
    assert drain.poll().rows == 0


def test_spans_nest_after_rounding(tmp_path, drain):
    trainer = Writer(tmp_path, rank=0)
    rng = np.random.default_rng(1)
    for _ in range(500):
        begin = int(rng.integers(1, 10**15))
        duration = int(rng.integers(0, 10**4))
        inner = int(rng.integers(0, duration + 1))
        rest = int(rng.integers(0, duration - inner + 1))
        trainer.put(Phase.BACKWARD, begin, duration)
        trainer.put(Phase.COMMUNICATION, begin + inner, rest)
    spans, _, _ = collect(drain)
    assert len(spans) == 1000
    for outer, within in zip(spans[::2], spans[1::2], strict=True):
        assert outer["time"] <= within["time"]
        assert within["time"] + within["duration"] <= outer["time"] + outer["duration"]
        assert outer["time"] % 100 == 0
        assert outer["duration"] % 100 == 0


def test_a_worker_has_the_rank_of_its_trainer(tmp_path, drain):
    trainer = Writer(tmp_path, rank=1)
    trainer.steps(1)
    worker = Writer(tmp_path, role="worker", worker=2, parent=trainer.key, salt=1)
    worker.put(Phase.FETCH, time.monotonic_ns(), 5, step=-1, value=16)
    spans, _, _ = collect(drain)
    fetch = [s for s in spans if s["phase"] == "fetch"]
    assert [(s["rank"], s["worker"], s["step"], s["value"]) for s in fetch] == [(1, 2, -1, 16.0)]


def test_a_process_that_does_not_know_its_rank_is_waited_for_then_gets_one(tmp_path, drain):
    trainer = Writer(tmp_path)
    trainer.steps(1)
    now = time.monotonic_ns()
    assert sum(drain.poll(now=now + i).rows for i in range(3)) == 0
    later = now + 3_000_000_000
    batches = [drain.poll(now=later + i) for i in range(3)]
    assert {row["rank"] for b in batches for row in rows(b.spans)} == {0}
    assert [(e.kind, e.rank) for b in batches for e in b.events] == [("process", 0)]


def test_a_rank_learned_in_time_is_used(tmp_path, drain):
    trainer = Writer(tmp_path)
    trainer.steps(1)
    drain.poll()
    trainer.journal(rank={"rank": 5, "local_rank": 1, "world_size": 8})
    spans, _, events = collect(drain)
    assert {s["rank"] for s in spans} == {5}
    assert [(e.kind, e.rank) for e in events] == [("process", 5), ("rank", 5)]


def test_two_trainers_without_rank_are_told_apart_and_it_is_said(tmp_path, drain):
    for salt in range(2):
        Writer(tmp_path, salt=salt).steps(1)
    spans, _, events = collect(drain, final=True)
    assert {s["rank"] for s in spans} == {0, 1}
    assert [e.detail["assigned"] for e in events if e.kind == "rank"] == [1]


def test_what_a_dead_process_left_is_taken_and_its_files_are_given_up(tmp_path, drain):
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    trainer = Writer(tmp_path, pid=child.pid, rank=0)
    trainer.steps(2)
    trainer.head(
        step=2, dropped=4, cost=123, open_=[(5, Phase.BACKWARD, ""), (6, Phase.ANNOTATION, "attention")]
    )
    child.wait()
    first = drain.poll()  # the process was never seen alive: it is given a moment
    spans, scalars, events = collect(drain, now=time.monotonic_ns() + int(60e9))
    events = first.events + events
    assert len(spans) + len(scalars) == 8
    kinds = {e.kind: e for e in events}
    assert set(kinds) == {"process", "exit", "dropped"}
    assert kinds["dropped"].detail["records"] == 4
    assert [(o["phase"], o["name"]) for o in kinds["exit"].detail["open"]] == [
        ("backward", ""),
        ("annotation", "attention"),
    ]
    assert kinds["exit"].detail["clean"] is False
    assert set(os.listdir(tmp_path)) <= {path.name for path, _ in drain.spent()}
    assert drain.cost_ns == 123
    process = drain.trainers()[0]
    assert process.last_phase == "backward"
    assert process.last_step == 1


def test_damage_costs_only_itself(tmp_path, drain):
    trainer = Writer(tmp_path, rank=0)
    with open(tmp_path / record.journal_name(trainer.key), "ab") as file:
        file.write(b'{"name": [1\n\xff\xfe\n[]\n')
    trainer.steps(1)
    trainer.put(211, 1, 1)
    (tmp_path / "lost+found.7.x.seg").touch()
    (tmp_path / "foreign").touch()
    spans, scalars, _ = collect(drain, final=True)
    assert len(spans) + len(scalars) == 4


def test_names_that_no_journal_holds_are_empty(tmp_path, drain):
    trainer = Writer(tmp_path, rank=0)
    trainer.put(Phase.FORWARD, 1, 1, raw=record.RECORD.pack(1, 1, 0.0, 0, 60_000, 1, Phase.FORWARD))
    spans, _, _ = collect(drain)
    assert [s["name"] for s in spans] == [""]


def test_a_busy_thread_does_not_starve_the_others(tmp_path, drain):
    raw = record.RECORD.pack(time.monotonic_ns(), 1, 0.0, 7, 0, 1, Phase.FORWARD) * record.SEGMENT_RECORDS
    busy = [Writer(tmp_path, rank=i, salt=i) for i in range(10)]
    for one in busy:
        for number in range(4):
            (tmp_path / record.segment_name(one.key, 0, number)).write_bytes(raw)
    quiet = Writer(tmp_path, rank=99, salt=99)
    quiet.steps(1)
    ranks, polls, more = set(), 0, True
    while 99 not in ranks and polls < 20:
        batch = drain.poll()
        more = batch.more
        polls += 1
        ranks |= set(batch.spans["rank"].tolist()) if batch.spans else set()
        assert batch.rows <= 131_072 + 16_384
    assert 99 in ranks
    assert more
    total = 0
    for _ in range(60):
        total += drain.poll().rows
    assert drain.records == 40 * record.SEGMENT_RECORDS + 4


def test_who_only_evaluates_takes_no_steps_beside_who_trains(tmp_path, drain):
    trainer, tester = Writer(tmp_path, rank=0), Writer(tmp_path, rank=0, salt=1)
    trainer.steps(5)
    for step in range(3):
        tester.put(Phase.FORWARD, 100 + 10 * step, 5, step=step, mode=Mode.PREDICT)
        tester.put(Phase.STEP, 100 + 10 * step, 5, step=step, mode=Mode.PREDICT)
    spans, _, _ = collect(drain)
    assert [(s["step"], s["mode"]) for s in spans if s["phase"] == "step"] == [(i, "train") for i in range(5)]
    assert len([s for s in spans if s["mode"] == "predict"]) == 3


def test_a_job_that_only_infers_has_steps(tmp_path, drain):
    server = Writer(tmp_path, rank=0)
    for step in range(3):
        server.put(Phase.STEP, 100 + 10 * step, 5, step=step, mode=Mode.PREDICT)
    spans, _, _ = collect(drain)
    assert [s["mode"] for s in spans] == ["predict"] * 3
