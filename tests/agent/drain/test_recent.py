"""The newest records of the first rank, as whoever shows a running job sees them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.agent.spool import Writer

from holter.agent.drain import recent
from holter.agent.drain.clock import Clock
from holter.agent.drain.drain import Drain
from holter.analysis.steps.steps import steps
from holter.schema.phases import Phase


def polled(drain: Drain, records: recent.RecentRecords, polls: int = 4) -> recent.JobNow:
    for _ in range(polls):
        records.take(drain, drain.poll())
    return records.now


@pytest.fixture
def drain(tmp_path: Path) -> Drain:
    return Drain(tmp_path, Clock.now())


def test_steps_of_the_first_rank_only(tmp_path: Path, drain: Drain) -> None:
    for rank in (1, 0):
        Writer(tmp_path, rank=rank, world_size=2, salt=rank).steps(10 + rank)
    now = polled(drain, recent.RecentRecords())
    assert now.step == 9
    found = steps(now.table())
    assert set(found["rank"].tolist()) == {0}
    assert found["step"].tolist() == list(range(10))
    assert found["data_loading"].tolist() == pytest.approx([5e6] * 10, abs=200)


def test_the_plan_of_a_trainer_is_known(tmp_path: Path, drain: Drain) -> None:
    Writer(tmp_path, rank=0).journal(
        planned={"trainer": "Trainer", "steps": 500, "time": time.monotonic_ns()}
    )
    assert polled(drain, recent.RecentRecords()).planned == 500


def test_a_phase_inside_of_others_has_its_own_begin(tmp_path: Path, drain: Drain) -> None:
    writer = Writer(tmp_path, rank=0)
    writer.steps(2)
    opened = ((50, Phase.EVAL, ""), (70, Phase.FORWARD, "Net"), (90, Phase.ANNOTATION, "mine"))
    writer.head(step=2, open_=opened)
    now = polled(drain, recent.RecentRecords())
    assert (now.phase, now.since) == ("forward", drain.clock.to_wall(70))


def test_memory_is_bounded(tmp_path: Path, drain: Drain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "MOST_ROWS", 40)
    writer, records, kept = Writer(tmp_path, rank=0), recent.RecentRecords(), []
    for begin in range(0, 100, 10):
        writer.steps(10, first=begin)
        kept.append(polled(drain, records, 2).table().rows)
    assert max(kept) <= 2 * 40
    assert min(kept[3:]) >= 40 - 3, "the last record of a process waits for the next poll"
    newest = steps(records.now.table())["step"].tolist()
    assert set(newest) >= set(range(90, 99))
