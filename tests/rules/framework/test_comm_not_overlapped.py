"""Tests of the rule CommNotOverlapped."""

from __future__ import annotations

import pytest
from tests.rules.tables import SECOND, START, found, look
from tests.rules.traces import MS, US, Trace

from holter.rules import Window
from holter.rules.framework.comm_not_overlapped import CommNotOverlapped, waiting


def communicating(exposed_ms, *, count=10, ranks=2, late_ms=0.0, **columns):
    """Compute of 6 ms, then an exposed collective, which rank 1 enters late."""
    trace = Trace()
    length = 6 + exposed_ms + late_ms + 1
    for rank in range(ranks):
        for i in range(count):
            at = i * length * MS
            trace.step(at, length * MS, i, rank=rank)
            own = late_ms if rank == 1 else 0.0
            trace.kernel(at, (6 + own) * MS, rank=rank)
            wait = late_ms - own
            begin = at + (6 + own) * MS
            trace.collective(begin, (exposed_ms + wait) * MS, rank=rank, step=i, group_size=ranks, **columns)
    return trace.tables


@pytest.mark.parametrize(
    ("exposed", "severity"), [(0.3, None), (0.5, "info"), (1.0, "warning"), (4.0, "critical")]
)
def test_exposed_transfer(exposed, severity):
    issues = found(CommNotOverlapped(), **communicating(exposed))
    assert [issue.severity for issue in issues] == ([severity] if severity else [])
    if severity:
        assert issues[0].evidence["transfer_pct"] == pytest.approx(100 * exposed / (7 + exposed), rel=0.01)
        assert issues[0].evidence["overlap_pct"] == pytest.approx(0)


def test_waiting_for_a_slower_rank_is_not_blamed_on_communication():
    issues, window = look(CommNotOverlapped(), **communicating(0.2, late_ms=6.0))
    assert issues == []
    assert window.details["ranks"]["0"]["transfer_pct"] < 5
    alone = communicating(0.2, late_ms=6.0)
    alone = {name: table.where(table["rank"] == 0) for name, table in alone.items()}
    assert found(CommNotOverlapped(), **alone)  # nobody can tell from one rank


def test_waiting_is_matched_by_order_within_a_step_and_group():
    first, second = Trace(), Trace()
    first.collective(0, 30, step=0)
    first.collective(50, 10, step=0)
    first.collective(90, 5, step=1, process_group="other")
    second.collective(1_000, 20, rank=1, step=0)
    second.collective(1_100, 40, rank=1, step=0)
    waits = waiting([first.tables["kernels"], second.tables["kernels"]])
    assert [w.tolist() for w in waits] == [[10, 0, 0], [0, 30]]


@pytest.mark.parametrize(
    ("rule", "columns", "code"),
    [
        (CommNotOverlapped(), {"bytes": 64 << 20}, "exposed"),
        (CommNotOverlapped(link_gb_s=100), {"bytes": 64 << 20}, "slow_link"),
        (CommNotOverlapped(link_gb_s=20), {"bytes": 64 << 20}, "exposed"),
    ],
)
def test_the_speed_of_a_link_is_judged_where_it_is_given(rule, columns, code):
    (issue,) = found(rule, **communicating(4.0, **columns))
    assert issue.code == code
    assert issue.evidence["bus_gb_s"] == pytest.approx((64 << 20) / (4 * MS), rel=0.01)  # x 2 (n-1)/n = 1


def test_many_small_messages():
    trace = Trace()
    for i in range(8):
        at = i * 10 * MS
        trace.step(at, 10 * MS, i)
        trace.kernel(at, 6 * MS)
        for k in range(60):
            trace.collective(at + 6 * MS + k * 60 * US, 50 * US, step=i, bytes=4096)
    (issue,) = found(CommNotOverlapped(), **trace.tables)
    assert (issue.code, issue.severity) == ("small_messages", "critical")


def test_a_trace_without_a_table_of_steps_counts_from_first_kernel_to_first_kernel():
    trace = Trace()
    for i in range(8):
        trace.kernel(i * 10 * MS, 6 * MS, step=i)
        trace.collective(i * 10 * MS + 6 * MS, 3 * MS, step=i)
    (issue,) = found(CommNotOverlapped(), kernels=trace.tables["kernels"])
    assert issue.evidence["transfer_pct"] == pytest.approx(30)
    assert issue.evidence["profiled_steps"] == 7


def test_what_was_judged_is_not_judged_again():
    tables = communicating(4.0)
    rule = CommNotOverlapped()
    later = Window.of(rule.lookback, start=START + 2 * SECOND, end=START + 12 * SECOND, **tables)
    assert list(rule.evaluate(later)) == []
    assert later.idle
