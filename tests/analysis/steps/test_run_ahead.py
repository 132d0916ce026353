"""Steps whose calls return before the device is done: who waits for it is not slow."""

from __future__ import annotations

import pytest
from tests.rules.tables import SECOND, found, steps

from holter.analysis.steps.outliers import outliers, slowest
from holter.analysis.steps.run_ahead import paced
from holter.rules.framework.step_outlier import StepOutlier
from holter.schema.table import Table

MS = 1_000_000
DEVICE = {0: 80 * MS}


def reading_each(count: int = 25, rounds: int = 8, *, stall_s: float = 0.0) -> Table:
    """Steps of 80 ms on a device, whose loop waits in each `count`-th, once for a stall, too."""
    lasts = rounds * [*(count - 1) * [0.0004], 0.08 * count - 0.0004 * (count - 1)]
    if stall_s:
        lasts[4 * count + 3] = stall_s
        lasts[5 * count - 1] = 0.08 * (count - 4)
    return steps(lasts, compute=0.99)


def told(table: Table) -> Table:
    """The event that tells the time of the device."""
    row = {"time": int(table["time"][0]) + SECOND, "rank": 0, "step": 30, "node": "n0"}
    return Table.of(
        "events", [{**row, "kind": "device_time", "detail": '{"steps": 8, "median_ns": 80000000}'}]
    )


def test_a_wait_for_many_steps_is_divided_among_them():
    table = reading_each()
    assert outliers(table)[0].duration_ms == pytest.approx(1990, abs=1)
    assert outliers(table, device_ns=DEVICE) == []
    (longest, parts), *_ = slowest(table, 30, device_ns=DEVICE)
    assert longest.duration_ms == pytest.approx(sum(parts.values()) / MS, rel=0.01)
    assert longest.duration_ms == pytest.approx(80, rel=0.01)
    even = paced(table, DEVICE)
    assert even["duration"].tolist() == pytest.approx(200 * [80 * MS], rel=0.01)
    assert int(even["duration"].sum()) == pytest.approx(int(table["duration"].sum()), rel=0.01)
    assert (even["compute"] <= even["duration"]).all()
    for name in ("data_loading", "time", "step"):
        assert even[name].tolist() == table[name].tolist()


def test_calls_that_wait_for_a_place_in_the_queue_of_the_device_do_not_end_a_stretch():
    short, full = 31 * [0.0004], 8 * [0.081]
    table = steps(6 * [*short, *full, 0.08 * 40 - sum(short) - sum(full)], compute=0.99)
    assert len(outliers(table)) > 0
    assert outliers(table, device_ns=DEVICE) == []


@pytest.mark.parametrize("measured", [65, 80, 120])
def test_the_device_need_not_be_measured_exactly(measured: int):
    assert outliers(reading_each(), device_ns={0: measured * MS}) == []


def test_a_stall_is_still_found():
    (one,) = outliers(reading_each(stall_s=5.0), device_ns=DEVICE)
    assert one.step == 103
    assert 4000 < one.extra_ms < 5000
    assert one.cause == "compute"


def test_loading_beside_a_busy_device_costs_what_the_device_misses():
    table = reading_each(count=10)
    slow = steps([*15 * [0.0004], 2.0, *60 * [0.08]], first=80, start=int(table["time"][-1]) + SECOND)
    slow["data_loading"][15] = slow["duration"][15]
    (one,) = outliers(Table.concat([table, slow]), device_ns=DEVICE)
    assert one.step == 95
    assert one.extra_ms < 2000 - 15 * 80 + 100


def test_a_loop_that_waits_in_each_step_stays_as_it_is():
    table = steps([*50 * [0.1], 0.4, *50 * [0.1]])
    assert paced(table, DEVICE)["duration"].tolist() == table["duration"].tolist()
    assert [one.step for one in outliers(table, device_ns=DEVICE)] == [50]


def test_only_ranks_whose_device_was_measured_change():
    other = reading_each()
    both = Table.concat([other, Table({**other.columns, "rank": other["rank"] + 1})])
    assert {one.rank for one in outliers(both, device_ns=DEVICE)} == {1}


def test_the_rule_counts_no_step_that_waits_for_others():
    table = reading_each()
    assert found(StepOutlier(), steps=table)
    assert found(StepOutlier(), steps=table, events=told(table)) == []
    stalled = reading_each(stall_s=9.0)
    (issue,) = found(StepOutlier(), steps=stalled, events=told(stalled))
    assert issue.evidence["steps_slowest_first"] == [103]
