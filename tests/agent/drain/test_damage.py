"""Whatever lies in a spool, draining it goes on: damage costs itself and is counted."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.agent.spool import Writer

from holter.agent.drain.clock import Clock
from holter.agent.drain.drain import Drain
from holter.schema import record

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(
    ["process", "name", "rank", "framework", "loader", "exception", "fault", "signal", "end", "new"]
)
FACTS = st.dictionaries(
    st.sampled_from(["time", "rank", "worker", "parent", "role", "argv", "stacks_signal", "step", "where"]),
    JSON,
)
LINES = st.lists(st.tuples(KINDS, JSON | FACTS), max_size=8)


def test_a_process_keeps_the_secrets_of_its_command_to_itself(tmp_path):
    Writer(tmp_path, rank=3, argv=["train.py", "--api-key", "s3cr3t"]).steps(1)
    events = Drain(tmp_path, Clock.now()).poll(final=True).events
    (told,) = [event.detail for event in events if event.kind == "process"]
    assert told["argv"] == ["train.py", "--api-key", "***"]


@pytest.mark.parametrize(
    "lie",
    [
        {"rank": {"rank": 10**12}},
        {"rank": {"rank": "first"}},
        {"process": {"worker": 10**6, "role": "worker"}},
        {"process": {"argv": 5, "parent": ["x"]}},
        {"name": [70_000, "x"]},
        {"name": [-1, "x"]},
        {"name": ["a", "b"]},
        {"exception": {"time": "noon", "message": 5}},
        {"end": {"cost_ns": "much"}},
    ],
)
def test_a_process_that_lies_costs_its_own_line(tmp_path, lie):
    sound = Writer(tmp_path, rank=3)
    sound.steps(5)
    bad = Writer(tmp_path, rank=1, salt=1)
    bad.journal(**lie)
    bad.steps(1)
    (tmp_path / f"{bad.key}.99999999.0.seg").write_bytes(b"\1" * 64)
    drain = Drain(tmp_path, Clock.now())
    batches = [drain.poll(final=True)]
    assert sound_steps(batches) == [0, 1, 2, 3, 4]
    assert 1 in batches[0].spans["rank"]


def test_what_somebody_deletes_from_a_spool_is_noticed(tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir()
    trainer = Writer(spool, rank=3)
    trainer.steps(2)
    drain = Drain(spool, Clock.now())
    drain.poll()
    assert drain.robbed() == []
    (spool / record.journal_name(trainer.key)).unlink()
    drain.poll()
    assert drain.robbed() == [f"files of process {trainer.key.partition('-')[0]} in {spool}"]
    shutil.rmtree(spool)
    assert drain.robbed() == [f"folder {spool}"]


def sound_steps(batches) -> list[int]:
    found = []
    for batch in batches:
        if batch.spans:
            codes, texts = batch.spans["phase"]
            found += [
                step
                for step, code, rank in zip(batch.spans["step"], codes, batch.spans["rank"], strict=True)
                if texts[code] == "step" and rank == 3
            ]
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LINES, st.binary(max_size=200), st.binary(max_size=500), st.binary(max_size=5000))
def test_no_garbage_stops_the_drain_or_touches_a_sound_neighbor(lines, rest, segment, head):
    with TemporaryDirectory() as folder:
        spool = Path(folder)
        sound = Writer(spool, rank=3)
        sound.steps(5)
        bad = Writer(spool, rank=0, salt=1)
        for kind, value in lines:
            bad.journal(**{kind: value})
        with open(spool / record.journal_name(bad.key), "ab") as file:
            file.write(rest)
        bad.put(2, time.monotonic_ns(), 5, thread=1)
        (spool / record.segment_name(bad.key, 0, 0)).write_bytes(segment)
        (spool / record.head_name(bad.key, 0)).write_bytes(head)
        drain = Drain(spool, Clock.now())
        now = time.monotonic_ns()
        batches = [drain.poll(now=now + i * 3_000_000_000) for i in range(4)]
        batches.append(drain.poll(final=True))
        assert sound_steps(batches) == [0, 1, 2, 3, 4]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=12), st.integers(0, 6 * 32))
def test_however_writing_and_draining_interleave_nothing_is_lost_or_doubled(bursts, cut):
    with TemporaryDirectory() as folder:
        spool = Path(folder)
        trainer = Writer(spool, rank=3)
        drain = Drain(spool, Clock.now())
        batches, first = [], 0
        for burst in bursts:
            trainer.steps(burst, first=first)
            first += burst
            batches.append(drain.poll())
        # A record that is being written when the process dies: some of its bytes are there, the last is not.
        trainer.put(
            1, 5, 5, raw=record.RECORD.pack(5, 5, 0.0, 99, 0, 1, 1)[: min(cut % 32, 31)].ljust(32, b"\0")
        )
        batches.append(drain.poll(final=True))
        assert sound_steps(batches) == list(range(first))


def test_a_spool_that_vanishes(tmp_path):
    drain = Drain(tmp_path / "spool", Clock.now())
    assert drain.poll().rows == 0
    (tmp_path / "spool").mkdir()
    Writer(tmp_path / "spool", rank=0).steps(1)
    assert drain.poll(final=True).rows == 4
    for name in os.listdir(tmp_path / "spool"):
        (tmp_path / "spool" / name).unlink()
    (tmp_path / "spool").rmdir()
    assert drain.poll(final=True).rows == 0
