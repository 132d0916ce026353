"""Rounds of readings keep their time, and the failure of one collector is its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from tests.agent.conftest import until

from holter.agent import sampling
from holter.agent.collectors import Collector, Machine
from holter.agent.drain.clock import Clock
from holter.agent.sampling import Sampler, check_interval


class Counting(Collector):
    def __init__(self, fail_at: int | None = None, then: Callable[[], None] = lambda: None):
        super().__init__(Machine())
        self.reads: list[int] = []
        self.fail_at = fail_at
        self.then = then

    def read(self, now):
        self.reads.append(now)
        if len(self.reads) == self.fail_at:
            raise OSError("the sensor is gone")
        self.then()
        yield "", "cpu.load1", float(len(self.reads))


class Hours:
    """Time that goes on only by what is done, and an alarm that rings late."""

    def __init__(self, *, late_ms: int = 0):
        self.now, self.late_ms = 5_000_000_000, late_ms

    def spend(self, ms: float) -> None:
        self.now += int(ms * 1e6)

    def monotonic_ns(self) -> int:
        return self.now

    def thread_time_ns(self) -> int:
        return self.now

    def wait(self, seconds: float) -> None:
        self.spend(seconds * 1000 + self.late_ms)

    def clear(self) -> None: ...
    def set(self) -> None: ...


def run_on(hours: Hours, monkeypatch, make, *, rounds: int, cost_ms: float) -> tuple[Sampler, list[float]]:
    """Take so many rounds of readings that cost time; return when each began, in ms."""

    def then():
        hours.spend(cost_ms)
        if len(counting.reads) == rounds:
            sampler.stop()

    counting = Counting(then=then)
    sampler = make(counting)
    monkeypatch.setattr(sampling, "time", hours)
    monkeypatch.setattr(sampler, "_wake", hours)
    sampler.run()
    return sampler, [(at - counting.reads[0]) / 1e6 for at in counting.reads]


@pytest.fixture
def faults():
    return []


@pytest.fixture
def make(faults):
    def note(where, error):
        faults.append((where, str(error)))

    return lambda *collectors, interval=100, **options: Sampler(
        collectors, Clock.now(), interval, on_fault=note, **options
    )


def test_rounds_keep_to_the_grid(make, monkeypatch):
    _, began = run_on(Hours(late_ms=7), monkeypatch, make, rounds=15, cost_ms=3)
    assert began == [0.0, *(100.0 * number + 7 for number in range(1, 15))], "lateness does not add up"


def test_rounds_that_cannot_be_kept_are_left_out(make, monkeypatch):
    _, began = run_on(Hours(), monkeypatch, make, rounds=4, cost_ms=250)
    assert began == [0.0, 300.0, 600.0, 900.0]


def test_one_time_for_all_readings_of_a_round(make):
    sampler = make(Counting(), Counting())
    before = time.time_ns()
    sampler.round(time.monotonic_ns())
    columns, after = sampler.take(), time.time_ns()
    assert columns["value"] == [1.0, 1.0]
    assert columns["time"][0] == columns["time"][1]
    assert before - 1e9 < columns["time"][0] < after + 1e9
    assert sampler.take()["time"] == []


def test_a_collector_that_fails_is_said_once_and_the_others_go_on(make, faults):
    failing, sound = Counting(fail_at=2), Counting()
    sampler = make(failing, sound)
    for _ in range(4):
        sampler.round(time.monotonic_ns())
    assert len(failing.reads) == 2
    assert len(sound.reads) == 4
    assert len(faults) == 1
    assert "the sensor is gone" in faults[0][1]


def test_a_new_interval_holds_at_once(make):
    counting = Counting()
    sampler = make(counting, interval=60000)
    thread = threading.Thread(target=sampler.run)
    thread.start()
    until(lambda: counting.reads)
    sampler.obey({"interval_ms": 100})
    until(lambda: len(counting.reads) >= 5, timeout=120)  # four minutes later otherwise
    sampler.stop()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("interval", [0, 1, 99, 300, 2000, -100])
def test_other_intervals_are_refused(make, interval):
    with pytest.raises(
        ValueError, match=f"{interval} ms is not possible; valid are: 100 ms, 200 ms, 500 ms, 1 s, 5 s, 60 s"
    ):
        check_interval(interval)


def test_what_nobody_takes_is_bounded_and_counted(make):
    sampler = make(Counting(), max_waiting=10)
    for _ in range(25):
        sampler.round(time.monotonic_ns())
    assert sampler.dropped == 15
    assert sampler.take()["value"] == [float(i) for i in range(16, 26)]
