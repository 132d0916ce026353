"""Where iterations end when several train in turn, and what the times of tf.data say of waits."""

from __future__ import annotations

import pytest

from holter.recorder.frameworks._turns import PATIENCE, Turns
from holter.recorder.frameworks.tensorflow.waits import LONG_NS, GraphCall, waited


def ends(order: str, expected: str = "") -> list[bool]:
    turns = Turns()
    for one in expected:
        turns.expect(ord(one))
    return [turns.ends(ord(one)) for one in order]


@pytest.mark.parametrize(("iteration", "expected"), [("d", ""), ("dg", ""), ("dg", "dg"), ("ddg", "dg")])
def test_each_iteration_is_one_step(iteration: str, expected: str) -> None:
    assert sum(ends(30 * iteration, expected)) == 30


def test_the_last_of_an_iteration_ends_it() -> None:
    assert ends("ddgddg", "dg") == [False, False, True, False, False, True]
    assert ends("dgdg")[2:] == [False, True]


def test_what_never_trains_is_not_waited_for_forever() -> None:
    assert ends("d" * 20, "dx")[PATIENCE:] == [True] * (20 - PATIENCE)
    turns = Turns()
    turns.expect(1)
    turns.expect(2)
    turns.forget(2)
    assert turns.ends(1)


def test_another_one_that_trains_rarely_adds_no_step() -> None:
    assert sum(ends("d" * 30 + "r" + "d" * 30)) == 60


def test_loops_that_follow_each_other_lose_no_step() -> None:
    assert sum(ends("a" * 30 + "b" * 30)) == 60
    assert sum(ends("a" * 30 + "dg" * 30)) == 60


def call(begin: int, end: int, requests: int = 1) -> GraphCall:
    return GraphCall(begin, end, requests, 0)


def test_a_wait_is_what_a_period_exceeds_the_time_between_requests() -> None:
    # Requests begin 1 after their call; the first two waits are 50 and 30, and compute takes 20.
    calls = [call(0, 71), call(80, 131), call(140, 171)]
    assert waited(calls, [20 + 9 + 1, 20 + 9 + 1]) == [50, 30]


def test_a_call_with_several_requests_has_several_times_between_them() -> None:
    # Three waits of 10 and three computations of 5 in each call, with 4 between the calls.
    calls = [call(0, 45, 3), call(49, 94, 3), call(98, 143, 3)]
    times = [5, 5, 9, 5, 5, 9, 5, 5]
    assert waited(calls, [*times]) == [30, 30]
    assert waited(calls, [99, 99, *times]) == [30, 30]  # of earlier calls


def test_times_that_tf_data_does_not_keep_tell_nothing() -> None:
    calls = [call(0, 10), call(20, 30), call(40, 50)]
    assert waited(calls, [15]) == []
    late = LONG_NS + 20
    assert waited([call(0, 10), call(late, late + 10)], [15]) == []
    assert waited([], []) == []
    assert waited(calls[:1], [15]) == []


def test_a_wait_lies_within_its_call() -> None:
    assert waited([call(0, 10), call(100, 110)], [5]) == [10]
    assert waited([call(0, 10), call(20, 30)], [25]) == [0]
