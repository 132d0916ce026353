"""Levels of detail of a timeline: lines of nested and overlapping events, blocks that lose nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.analysis.timeline.busy import busy
from holter.analysis.timeline.tiles import (
    ALL_KEPT,
    build,
    coarsest_finest,
    depths,
    events,
    level_for,
    merged,
    order,
    simplified,
    top_level,
    width,
)

INTERVALS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 3_000)), min_size=1, max_size=60)


def arrays(pairs):
    begin, duration = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    sequence = order(begin, duration)
    return begin[sequence], duration[sequence]


@given(INTERVALS)
def test_no_two_events_of_a_line_overlap(pairs):
    begin, duration = arrays(pairs)
    line = depths(begin, duration)
    end = begin + np.maximum(duration, 1)
    for n in range(len(begin)):
        for m in range(n):
            if line[n] == line[m]:
                assert end[m] <= begin[n] or end[n] <= begin[m]


@given(INTERVALS)
def test_the_line_of_a_nested_event_is_the_number_of_events_around_it(drawn):
    pairs = []
    for begin, duration in drawn:
        end = begin + duration + 1
        if all(
            end <= b or b + d <= begin or (b <= begin and end <= b + d) or (begin <= b and b + d <= end)
            for b, d in pairs
        ):
            pairs.append((begin, duration + 1))
    begin, duration = arrays(pairs)
    end = begin + duration
    for n, line in enumerate(depths(begin, duration)):
        assert line == np.count_nonzero((begin[:n] <= begin[n]) & (end[:n] > begin[n]))


def test_overlapping_events_take_the_first_free_line():
    begin, duration = np.array([0, 5, 8, 12, 100]), np.array([10, 10, 1, 2, 5])
    assert depths(begin, duration).tolist() == [0, 1, 2, 0, 0]


def test_levels_are_near_a_pixel():
    for ns in (1, 700, 1024, 5000, 123_456_789):
        level = level_for(ns)
        assert level == 0 or width(level) / 2 <= ns <= width(level) * 2
    assert top_level(1) == 0
    assert 512 <= 10**12 / width(top_level(10**12)) < 4 * 512
    assert coarsest_finest(0.0) > coarsest_finest(1e5) > coarsest_finest(1e8)


@pytest.mark.parametrize("count", [1, 50, ALL_KEPT, ALL_KEPT + 1, 30_000])
@pytest.mark.parametrize("longest", [100, 100_000])
def test_every_level_shows_every_event_once(count, longest):
    random = np.random.default_rng(count)
    begin = 10**18 + random.integers(0, 3 * 10**8, count)
    duration = random.integers(0, longest, count)
    name = random.integers(0, 5, count).astype(np.int32)
    top = top_level(3 * 10**8)
    lane = build(begin, duration, name, top=top, finest=2)
    assert lane.finest <= 2
    assert lane.level.min(initial=99) >= lane.finest
    for level in range(lane.finest, top + 1):
        kept = (lane.rows.count == 1) & (
            lane.rows.duration >= width(1) // 4 * 4 ** lane.level.astype(np.int64)
        )
        shown = lane.rows.where((lane.level == level) | ((lane.level > level) & kept))
        assert shown.count.sum() == count
        assert shown.busy.sum() == duration.sum()
        assert shown.time.min() == begin.min()
        assert (shown.time + shown.duration).max() == (begin + duration).max()
        long = duration >= width(level)
        alone = shown.where(shown.longest >= width(level))
        told = sorted(zip(alone.time.tolist(), alone.duration.tolist(), alone.name.tolist(), strict=True))
        every = zip(begin[long].tolist(), duration[long].tolist(), name[long].tolist(), strict=True)
        assert told == sorted(every)
        merged_rows = shown.where(shown.longest < width(level))
        if level > lane.finest or count > ALL_KEPT:
            block = merged_rows.time // width(level)
            assert len(set(zip(block.tolist(), merged_rows.depth.tolist(), strict=True))) == len(block)


def test_a_block_is_called_after_its_longest_event():
    begin, duration = np.array([0, 10, 50, 2000]), np.array([5, 30, 20, 1])
    rows = events(begin, duration, np.array([1, 2, 3, 4], np.int32), np.zeros(4, np.int16))
    (first, second) = zip(
        *(getattr(merged(rows, 0), field).tolist() for field in rows.__slots__), strict=True
    )
    assert first == (0, 70, 0, 2, 3, 55, 30)
    assert second == (2000, 1, 0, 4, 1, 1, 1)
    assert len(simplified(rows, 0)) == 2
    assert len(merged(rows.where(slice(0, 0)), 0)) == 0


def test_many_events_become_few_rows():
    begin = np.arange(100_000) * 1000
    lane = build(begin, np.full(100_000, 900), np.zeros(100_000, np.int32), top=7, finest=9)
    assert lane.lines == 1
    assert len(lane.rows) < 100_000 / 2
    assert lane.finest > 0


def test_how_busy_pixels_are():
    edges = np.array([0, 100, 200, 300, 400]) + 10**18
    time, duration = np.array([0, 50, 150, 390]) + 10**18, np.array([100, 50, 100, 100])
    worked = np.array([100, 50, 20, 100])
    assert busy(time, duration, worked, edges).tolist() == pytest.approx([100, 10, 10, 10])
    assert busy(time[:0], duration[:0], worked[:0], edges).tolist() == [0, 0, 0, 0]
