"""Rounds of readings keep their time, and the failure of one collector is its own."""

from __future__ import annotations

import threading
import time

import pytest

from holter.agent.clock import Clock
from holter.agent.collectors import Collector, Machine
from holter.agent.sampling import Sampler, check_interval


class Counting(Collector):
    def __init__(self, seconds: float = 0.0, fail_at: int | None = None):
        super().__init__(Machine())
        self.reads: list[int] = []
        self.seconds = seconds
        self.fail_at = fail_at

    def read(self, now):
        self.reads.append(now)
        if len(self.reads) == self.fail_at:
            raise OSError("the sensor is gone")
        time.sleep(self.seconds)
        yield "", "cpu.load1", float(len(self.reads))


def run_for(sampler: Sampler, seconds: float) -> None:
    thread = threading.Thread(target=sampler.run)
    thread.start()
    time.sleep(seconds)
    sampler.stop()
    thread.join(5)
    assert not thread.is_alive()


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


def test_rounds_keep_to_the_grid(make):
    counting = Counting()
    sampler = make(counting)
    run_for(sampler, 1.55)
    first = counting.reads[0]
    late = [(at - first) % 100_000_000 / 1e6 for at in counting.reads]
    assert 13 <= len(counting.reads) + sampler.missed <= 17
    assert sorted(late)[len(late) // 2] < 20  # lateness does not add up


def test_rounds_that_cannot_be_kept_are_left_out_and_counted(make):
    counting = Counting(seconds=0.25)
    sampler = make(counting)
    run_for(sampler, 1.2)
    assert 3 <= len(counting.reads) <= 5
    assert sampler.missed >= 5


def test_one_time_for_all_readings_of_a_round(make):
    sampler = make(Counting(), Counting())
    before = time.time_ns()
    sampler.round(time.monotonic_ns())
    columns = sampler.take()
    assert columns["value"] == [1.0, 1.0]
    assert columns["time"][0] == columns["time"][1]
    assert abs(columns["time"][0] - before) < 1e9
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
    time.sleep(0.2)
    sampler.interval_ms = 100
    time.sleep(0.8)
    sampler.stop()
    thread.join(5)
    assert len(counting.reads) >= 5


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
