"""One anchor for all times of a node: a wall clock that is set changes nothing but what is said of it."""

from __future__ import annotations

import time

from holter.agent.drain.clock import Clock

SLACK_NS = 50_000_000


def test_the_anchor_is_now():
    before = time.time_ns()
    clock = Clock.now()
    assert before - SLACK_NS <= clock.wall <= time.time_ns() + SLACK_NS
    before = time.time_ns()
    assert before - SLACK_NS <= clock.time_ns() <= time.time_ns() + SLACK_NS
    # Between its two readings of the clocks a busy machine may do something else.
    assert min(abs(clock.drift()) for _ in range(20)) < SLACK_NS


def test_times_follow_the_anchor_however_the_wall_clock_is_set():
    monotonic = time.monotonic_ns()
    an_hour = 3_600_000_000_000
    clock = Clock(monotonic, time.time_ns() + an_hour)  # as if it had been set back by an hour since
    assert clock.to_wall(monotonic) == clock.wall
    assert clock.to_wall(monotonic + 5) - clock.to_wall(monotonic) == 5
    assert min(abs(clock.drift() + an_hour) for _ in range(20)) < SLACK_NS


def test_a_time_that_is_wall_time_already_stays():
    clock = Clock.now()
    assert clock.to_wall(clock.wall + 7) == clock.wall + 7
