"""Sets of intervals, against counting every moment one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holter.analysis.intervals import difference, gaps, inside, measure, union

some = st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 8)), max_size=12)
AXIS = range(-30, 40)


def moments(listed):
    return {t for b, d in listed for t in range(b, b + d)}


def made(listed):
    return union([b for b, _ in listed], [b + d for b, d in listed])


def covered(these):
    return {t for b, e in zip(these.begin.tolist(), these.end.tolist(), strict=True) for t in range(b, e)}


@given(some)
def test_union_is_what_any_covers_and_in_its_shortest_form(listed):
    these = made(listed)
    assert covered(these) == moments(listed)
    assert these.length == len(moments(listed))
    assert (these.begin[1:] > these.end[:-1]).all()
    assert (these.end > these.begin).all()
    assert inside(these, list(AXIS)).tolist() == [t in moments(listed) for t in AXIS]


@given(some, some)
def test_difference(whole, without):
    these = difference(made(whole), made(without))
    assert covered(these) == moments(whole) - moments(without)
    assert (these.begin[1:] > these.end[:-1]).all()


@given(some, some)
def test_measure_of_stretches_that_may_overlap(listed, stretches):
    found = measure(made(listed), [b for b, _ in stretches], [b + d for b, d in stretches])
    assert found.tolist() == [len(moments(listed) & set(range(b, b + d))) for b, d in stretches]


@given(some)
def test_gaps_are_what_lies_between_and_name_what_came_after(listed):
    work = [(b, d) for b, d in listed if d]
    found = gaps([b for b, _ in work], [b + d for b, d in work])
    busy = moments(work)
    between = set(range(min(busy), max(busy) + 1)) - busy if busy else set()
    assert covered(found) == between
    for end, which in zip(found.end.tolist(), found.next.tolist(), strict=True):
        assert work[which][0] == end
