"""Which steps are there, will never be, or may still come: every scenario of the reference's tests."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from tests.tensors.writing import Recording

from holter.tensors import Source, StepState
from holter.tensors.errors import NoMoreData, StepNotYetAvailable, StepUnavailable

AVAIL, NEVER, NOT_YET = StepState.AVAILABLE, StepState.UNAVAILABLE, StepState.NOT_YET_AVAILABLE
ABC, AC = (0, 1, 2), (0, 2)


def recorded(
    where: Path, steps: dict[int, tuple[int, ...]], *, ended: bool, ranks: tuple[int, ...]
) -> Source:
    recording = Recording(where, ranks=ranks)
    for step, writers in steps.items():
        for rank in writers:
            recording.put(step, b"", rank=rank)
    if ended:
        recording.end()
    return recording.source()


def scenario(*stretches: tuple[range | tuple[int, ...], tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    return {step: writers for steps, writers in stretches for step in steps}


FULL = scenario((range(7), (0,)))
NO_4 = scenario(((0, 1, 2, 3, 5, 6), (0,)))
THREE = scenario((range(7), ABC))
SILENT = scenario((range(3), ABC), (range(3, 7), AC))
BACK = scenario((range(3), ABC), (range(3, 6), AC), ((6,), ABC))
HOLE = scenario((range(3), ABC), ((4, 5), AC), ((6,), ABC))
PARTIAL = scenario((range(3), ABC), ((4, 5, 6), AC))
S7 = [*range(7)]
NO_3 = [0, 1, 2, 4, 5, 6]


@pytest.mark.parametrize(
    ("steps", "ranks", "ended", "every", "complete", "states", "last"),
    [
        (FULL, (0,), True, S7, S7, {3: AVAIL, 8: NEVER}, 6),
        (FULL, (0,), False, S7, S7, {3: AVAIL, 8: NOT_YET}, 6),
        (NO_4, (0,), True, [0, 1, 2, 3, 5, 6], [0, 1, 2, 3, 5, 6], {3: AVAIL, 4: NEVER, 8: NEVER}, 6),
        (NO_4, (0,), False, [0, 1, 2, 3, 5, 6], [0, 1, 2, 3, 5, 6], {3: AVAIL, 4: NEVER, 8: NOT_YET}, 6),
        (THREE, ABC, True, S7, S7, {3: AVAIL, 4: AVAIL, 8: NEVER}, 6),
        (THREE, ABC, False, S7, S7, {3: AVAIL, 4: AVAIL, 8: NOT_YET}, 6),
        (SILENT, ABC, True, S7, S7, {3: AVAIL, 4: AVAIL, 6: AVAIL, 8: NEVER}, 6),
        (SILENT, ABC, False, S7, [0, 1, 2], {2: AVAIL, 4: NOT_YET, 6: NOT_YET, 8: NOT_YET}, 2),
        (BACK, ABC, False, S7, S7, {2: AVAIL, 4: AVAIL, 6: AVAIL, 8: NOT_YET}, 6),
        (BACK, ABC, True, S7, S7, {2: AVAIL, 4: AVAIL, 6: AVAIL, 8: NEVER}, 6),
        (HOLE, ABC, False, NO_3, NO_3, {2: AVAIL, 3: NEVER, 4: AVAIL, 6: AVAIL, 8: NOT_YET}, 6),
        (PARTIAL, ABC, False, NO_3, [0, 1, 2], {2: AVAIL, 3: NOT_YET, 4: NOT_YET, 6: NOT_YET, 8: NOT_YET}, 2),
        (PARTIAL, ABC, True, NO_3, NO_3, {2: AVAIL, 3: NEVER, 4: AVAIL, 6: AVAIL, 8: NEVER}, 6),
    ],
)
def test_states_of_steps(tmp_path, steps, ranks, ended, every, complete, states, last):
    source = recorded(tmp_path, steps, ended=ended, ranks=ranks)
    assert source.completeness.steps(incomplete=True) == every
    assert source.completeness.steps() == complete
    assert {step: source.state(step) for step in states} == states
    assert source.completeness.last_complete_step == last


def test_waiting_for_steps(tmp_path):
    recorded(tmp_path / "a", FULL, ended=False, ranks=(0,)).wait(range(7))
    ended = recorded(tmp_path / "b", NO_4, ended=True, ranks=(0,))
    with pytest.raises(StepUnavailable, match="3 and 5"):
        ended.wait([4])
    with pytest.raises(NoMoreData) as end:
        ended.wait([7])
    assert (end.value.step, end.value.last_step) == (7, 6)


@pytest.mark.parametrize("ended", [True, False])
def test_two_modes(tmp_path, ended):
    recording = Recording(tmp_path)
    for step in range(0, 80, 10):
        mode = "train" if step < 40 else "eval"
        recording.save(step, mode=mode, own=step % 40)
    if ended:
        recording.end()
    source = recording.source()
    later = NEVER if ended else NOT_YET
    assert source.completeness.steps() == list(range(0, 80, 10))
    assert source.state(30) == source.state(30, "train", own=True) == AVAIL
    assert source.state(23, "train", own=True) == NEVER
    assert source.state(40, "train", own=True) == later
    assert source.state(30, "eval", own=True) == AVAIL
    assert source.state(23, "eval", own=True) == NEVER
    assert {source.state(80, mode, own=True) for mode in (None, "train", "eval")} == {later}
    assert source.completeness.last_complete_step == 70


def test_steps_that_wait_too_long_are_given_up(tmp_path):
    recording = Recording(tmp_path, ranks=ABC)
    for step in range(20):
        recording.put(step, b"")
    source = recording.source(window=10)
    assert source.completeness.last_complete_step == 4
    for _ in range(3):
        source.state(0)
        assert source.completeness.last_complete_step == 9
    assert source.completeness.steps() == list(range(10))


def test_a_tensor_that_some_ranks_have_not_written(tmp_path):
    recording = Recording(tmp_path, ranks=(0, 1))
    for step in range(10):
        own = {"loss": 0.5} if step < 5 else {"gradient/w": 0.5}
        for rank in (0, 1) if step not in (3, 4, 8, 9) else (0,):
            recording.save(step, {"w": 1.0, **own}, rank=rank)
    tensors = recording.open().tensors()
    assert (tensors.steps(), tensors.steps(incomplete=True)) == ([*range(8)], [*range(10)])
    assert tensors["loss"].steps() == tensors["loss"].steps(incomplete=True) == [0, 1, 2, 3, 4]
    assert tensors["gradient/w"].steps() == [5, 6, 7]
    assert tensors["gradient/w"].steps(incomplete=True) == [5, 6, 7, 8, 9]
    assert tensors["w"].steps() == tensors.steps()
    assert tensors.source.completeness.last_complete_step == 7


def test_waiting_ends_when_the_step_comes_and_reading_goes_on(tmp_path):
    # D25: after waiting, the reference no longer looked at what is new.
    recording = Recording(tmp_path)
    recording.save(0)
    source = recording.source()
    late = threading.Timer(0.2, recording.save, [1])
    late.start()
    source.wait([1], poll_s=0.05, timeout_s=120)
    late.join()
    assert source.refreshing
    recording.save(2)
    assert source.state(2) is AVAIL


def test_waiting_has_an_end(tmp_path):
    recording = Recording(tmp_path)
    recording.save(0)
    source = recording.source()
    with pytest.raises(StepNotYetAvailable, match=r"waited 0\.1 s"):
        source.wait([5], timeout_s=0.1, poll_s=0.05)


def test_a_dead_job_is_told_from_a_slow_one(tmp_path):
    # D33: a job that crashed without saying so.
    import os

    recording = Recording(tmp_path)
    recording.save(0)
    source = recording.source()
    old = time.time() - 3600
    for folder, _, names in os.walk(recording.folder.url):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            os.utime(path, (old, old))
    with pytest.raises(StepNotYetAvailable, match="seems dead"):
        source.wait([5])


def test_frozen_comes_back_after_an_error(tmp_path):
    # D25: the reference stayed frozen, or thawed what was frozen before.
    source = Recording(tmp_path).source()
    with pytest.raises(RuntimeError), source.frozen():
        raise RuntimeError
    assert source.refreshing
    with source.frozen():
        with source.frozen():
            pass
        assert not source.refreshing


def test_many_ranks(tmp_path):
    recording = Recording(tmp_path, ranks=range(2001))
    for rank in range(2001):
        recording.put(0, b"", rank=rank)
    source = recording.source()
    assert source.state(0) is AVAIL
    assert len(source.saved.ranks[(0, "train")]) == 2001
