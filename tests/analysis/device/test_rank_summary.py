"""Late ranks, told from arrivals on any clock, host from accelerator; no alarm where ranks only jitter."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given as given_by
from hypothesis import settings
from hypothesis import strategies as st
from tests.analysis.kineto import given, load
from tests.rules.tables import START
from tests.rules.traces import MS, US, Trace

from holter.analysis.device.arrivals import late_together
from holter.analysis.device.rank_summary import RankSummary, odd_ranks, rank_parts, rank_summary
from holter.analysis.device.time_breakdown import time_breakdown
from holter.analysis.host.operator_tree import host
from holter.analysis.host.unequal_threads import slow_threads
from holter.analysis.verdict.device_verdict import verdict
from holter.schema.table import Table


def job(
    ranks: int,
    collectives: int,
    *,
    late: int | list[int] = -1,
    by: float = 0,
    busy: bool = False,
    clocks: list[int] | None = None,
    jitter: float = 0,
    seed: int = 0,
) -> RankSummary:
    """Summarize ranks that compute 2 ms before each collective; one of them longer or later by so many ns."""
    random = np.random.default_rng(seed)
    trace = Trace()
    slow = late if isinstance(late, list) else [late] * (late >= 0)
    arrival = np.zeros((ranks, collectives))
    for k in range(collectives):
        arrival[:, k] = k * 10 * MS + 2 * MS + random.uniform(0, jitter, ranks)
        if slow:
            arrival[slow, k] += by
    end = arrival.max(axis=0) + 500 * US
    for rank in range(ranks):
        clock = clocks[rank] if clocks else 0
        for k in range(collectives):
            work = 2 * MS + (by if busy and rank in slow else 0)
            trace.kernel(clock + arrival[rank, k] - work, work, rank=rank)
            begin = round(arrival[rank, k])
            trace.collective(clock + begin, round(end[k]) + random.integers(0, 3000) - begin, rank=rank)
    tables = {name: Table.of(name, trace.rows[name]) for name in ("kernels", "memory_operations")}
    return rank_summary(rank_parts(tables))


def test_a_late_host_is_named() -> None:
    found = job(4, 20, late=2, by=3 * MS, jitter=20 * US)
    (late,) = found.late
    assert (late.rank, late.cause, late.later, late.last, late.collectives) == (2, "host", 20, 20, 20)
    assert late.lateness_ns == pytest.approx(20 * 3 * MS, rel=0.02)


def test_a_slow_accelerator_is_told_from_a_late_host() -> None:
    (late,) = job(8, 20, late=5, by=3 * MS, busy=True, jitter=20 * US).late
    assert (late.rank, late.cause) == (5, "device")
    assert late.extra_busy_ns == pytest.approx(20 * 3 * MS, rel=0.05)


def test_half_of_the_ranks_are_late_together() -> None:
    found = job(8, 20, late=[4, 5, 6, 7], by=3 * MS, jitter=20 * US)
    assert sorted(late.rank for late in found.late) == [4, 5, 6, 7]
    assert [late.lateness_ns for late in found.late] == pytest.approx([20 * 3 * MS] * 4, rel=0.02)
    assert len(late_together(found.late)) == 4


def test_a_rank_that_is_hardly_late_is_not_of_the_group() -> None:
    trace = [job(8, 20, late=2, by=by, jitter=20 * US).late[0] for by in (5 * MS, 1 * MS)]
    assert late_together(trace) == trace[:1]


@pytest.mark.parametrize(("slow", "shared"), [([6, 7], "stage 3"), ([1, 3, 5, 7], "replica 1"), ([2], "")])
def test_slow_threads_are_a_group_with_the_ratio_to_the_others(slow: list[int], shared: str) -> None:
    """Workers of a pipeline of four stages and two replicas."""
    trace = Trace()
    tracks = []
    for thread in range(8):
        tracks.append(
            {"rank": 0, "kind": "process", "process": thread, "thread": -1, "name": f"stage {thread // 2}"}
        )
        named = f"replica {thread % 2}"
        tracks.append({"rank": 0, "kind": "thread", "process": thread, "thread": thread, "name": named})
        for k in range(10):
            trace.operator("forward-compute", k * 10 * MS, (4 if thread in slow else 2) * MS)
            trace.rows["operators"][-1]["thread"] = thread
    tables = {"operators": Table.of("operators", trace.rows["operators"])}
    found = slow_threads(host(tables), Table.of("tracks", tracks))
    assert sorted(one.thread for one in found) == slow
    assert [one.ratio for one in found] == pytest.approx([2.0] * len(slow))
    assert {(one.shared, one.others, one.alike) for one in found} == {(shared, 8 - len(slow), 8)}
    said = verdict(tables | {"tracks": Table.of("tracks", tracks)}).sentence
    assert f"2 times as long as the median of the other {8 - len(slow)} threads" in said
    assert (f"The {len(slow)} threads of {shared} take" in said) == bool(shared)


def test_clocks_that_differ_do_not_matter() -> None:
    clocks = [0, 50 * MS, -7 * MS, 900 * MS]
    found = job(4, 20, late=1, by=3 * MS, clocks=clocks, jitter=20 * US)
    assert [late.rank for late in found.late] == [1]
    seen = found.arrivals[0].clock_ns
    assert (seen - seen[0]) / MS == pytest.approx([0, 50, -7, 900], abs=0.05)


def test_two_ranks_are_enough() -> None:
    assert [late.rank for late in job(2, 12, late=0, by=4 * MS).late] == [0]


@settings(max_examples=25, deadline=None)
@given_by(
    ranks=st.integers(2, 12),
    collectives=st.integers(3, 40),
    jitter=st.integers(0, 400),
    seed=st.integers(0, 2**31),
)
def test_jitter_is_no_alarm(ranks: int, collectives: int, jitter: int, seed: int) -> None:
    """Every rank comes now earlier, now later, by up to 4 % of the time between collectives."""
    found = job(ranks, collectives, jitter=jitter * US, seed=seed)
    assert found.late == []
    assert found.odd == []


def test_ends_that_do_not_coincide_are_not_matched() -> None:
    trace = Trace()
    for rank in range(2):
        for k in range(10):
            trace.collective((k + rank * k) * 7 * MS, 2 * MS, rank=rank)
    tables = {name: Table.of(name, trace.rows[name]) for name in ("kernels", "memory_operations")}
    found = rank_summary(rank_parts(tables))
    assert found.late == []
    assert found.arrivals == []
    assert "not of the same collectives" in found.refused[0]


def test_the_odd_rank_out_is_named() -> None:
    trace = Trace()
    for rank in range(6):
        for k in range(10):
            trace.kernel(k * 10 * MS, (3 if rank == 4 else 8) * MS, rank=rank)
        trace.kernel(100 * MS, MS, rank=rank)
    odd = odd_ranks(time_breakdown({"kernels": Table.of("kernels", trace.rows["kernels"])}))
    assert {found.rank for found in odd} == {4}
    assert {found.part for found in odd} == {"compute", "idle"}


def workers(times: list[float], name: str = "forward-compute") -> list[str]:
    """Return the slow ones of workers that each make 20 calls of so many microseconds."""
    rows = [
        {
            "time": START + k * MS,
            "duration": round(us * US),
            "rank": 0,
            "thread": n,
            "name": name,
            "kind": "operator",
        }
        for n, us in enumerate(times)
        for k in range(20)
    ]
    return [found.label for found in slow_threads(host({"operators": Table.of("operators", rows)}))]


def test_a_worker_that_is_slow_at_what_others_do_too_is_named() -> None:
    assert workers([400, 410, 395, 800, 405]) == ["thread 3"]
    assert workers([400, 410, 395, 440, 405]) == []
    assert workers([400, 800, 400]) == []  # too few to say what is usual
    assert workers([400, 410, 395, 800, 405], name="backward-recv") == []  # waiting for others


@pytest.mark.parametrize(("name", "slow"), [("AR", {"PP rank 0"}), ("ST", {"PP rank 3"})])
def test_the_slow_workers_of_real_jobs_are_those_of_the_published_analysis(name: str, slow: set[str]) -> None:
    """AR: one worker, of data-parallel rank 0 and stage 0, explains all; ST: stage 3."""
    tables = load(given("traces", "bytedance-straggler", f"timeline-{name}.json.gz"))
    labels = [found.label for found in slow_threads(host(tables), tables["tracks"])]
    assert {label.split(", ")[1] for label in labels} == slow
    ideal = load(given("traces", "bytedance-straggler", f"ideal-timeline-{name}.json.gz"))
    assert slow_threads(host(ideal), ideal["tracks"]) == []


def test_of_eight_real_ranks_the_one_that_is_always_late_is_named() -> None:
    """Rank 7 arrives last at 5 of 8 collectives, up to 7.6 ms after the first: `collective_skew.csv`."""
    found = rank_summary(rank_parts(load(given("traces", "param", "dlrm_8rank"))))
    assert [(late.rank, late.cause, late.last) for late in found.late] == [(7, "host", 5)]
    skews = sorted(skew for these in found.arrivals for skew in (these.skew // 1000).tolist())
    with given("expected", "param_dlrm_8rank", "collective_skew.csv").open() as file:
        told = sorted(float(row["start_skew_us"]) for row in csv.DictReader(file))
    assert skews == pytest.approx(told, abs=8)  # clocks that differ by microseconds are set right here
