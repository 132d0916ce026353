"""Busy, computing, communicating, idle: worked by hand."""

from __future__ import annotations

import pytest
from tests.rules.traces import MS, US, Trace

from holter.analysis.device.time_breakdown import time_breakdown
from holter.schema.table import Table


def tables(trace: Trace) -> dict[str, Table]:
    return {name: Table.of(name, rows) for name, rows in trace.rows.items()}


def test_time_adds_up_and_overlap_is_told() -> None:
    trace = Trace()
    trace.kernel(0, 10 * MS)
    trace.collective(5 * MS, 10 * MS)  # half of it behind the kernel
    trace.copy(14 * MS, 3 * MS)  # 1 ms of it behind the collective
    trace.kernel(20 * MS, 5 * MS)
    (found,) = time_breakdown(tables(trace))
    assert found.span_ns == 25 * MS
    assert found.compute_ns == 15 * MS
    assert (found.communication_ns, found.communication_exposed_ns) == (10 * MS, 5 * MS)
    assert found.overlap_pct == 50.0
    assert (found.memory_ns, found.memory_exposed_ns) == (3 * MS, 2 * MS)
    assert found.idle_ns == 3 * MS
    assert found.share(found.busy_ns) == 88.0


def test_devices_and_ranks_are_kept_apart() -> None:
    trace = Trace()
    for rank in (1, 0):
        for device in (0, 1):
            trace.kernel(device * MS, (1 + rank) * MS, rank=rank, device=device)
    found = time_breakdown(tables(trace))
    assert [(x.rank, x.device, x.busy_ns) for x in found] == [
        (0, 0, MS),
        (0, 1, MS),
        (1, 0, 2 * MS),
        (1, 1, 2 * MS),
    ]


def test_nothing_ran() -> None:
    assert time_breakdown({}) == []


def test_an_unknown_definition_is_refused() -> None:
    with pytest.raises(ValueError, match="valid: all, hta, tracelens"):
        time_breakdown({}, "nsight")


def test_hta_drops_what_was_launched_in_the_last_step() -> None:
    trace = Trace()
    for number in range(2):
        trace.operator(f"ProfilerStep#{number}", number * 10 * MS, 10 * MS)
        trace.kernel(number * 10 * MS + MS, 2 * MS, launched=number * 10 * MS)
    trace.kernel(8 * MS, MS)  # nobody is known to have launched it
    for row in trace.rows["operators"]:
        row["kind"] = "annotation"
    (all_of_it,) = time_breakdown(tables(trace))
    (as_hta,) = time_breakdown(tables(trace), "hta")
    assert (all_of_it.span_ns, all_of_it.busy_ns) == (12 * MS, 5 * MS)
    assert (as_hta.span_ns, as_hta.busy_ns) == (2 * MS, 2 * MS)


def test_tracelens_counts_a_fill_as_compute() -> None:
    trace = Trace()
    trace.copy(0, 5 * US, kind="memset")
    (found,) = time_breakdown(tables(trace), "tracelens")
    assert (found.compute_ns, found.memory_ns) == (5 * US, 0)
