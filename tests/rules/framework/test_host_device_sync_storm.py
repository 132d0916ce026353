"""Tests of the rule HostDeviceSyncStorm."""

from __future__ import annotations

import pytest
from tests.rules.tables import found
from tests.rules.traces import MS, US, Trace, syncing

from holter.rules.framework.host_device_sync_storm import HostDeviceSyncStorm


@pytest.mark.parametrize(
    ("about", "severity"),
    [
        ({"per_step": 2, "idle_us": 20}, None),
        ({"per_step": 2, "idle_us": 60}, "info"),
        ({"per_step": 20, "idle_us": 60}, "warning"),
        ({"per_step": 20, "idle_us": 20}, None),
        ({"per_step": 3, "idle_us": 200}, "warning"),
        ({"per_step": 3, "idle_us": 500}, "critical"),
        ({"per_step": 3, "idle_us": 500, "loading": True}, None),  # it idles for data
    ],
)
def test_syncs_are_judged_by_the_harm_they_do(about, severity):
    issues = found(HostDeviceSyncStorm(), **syncing(**about))
    assert [issue.severity for issue in issues] == ([severity] if severity else [])


def test_the_line_that_does_the_harm_is_named():
    (issue,) = found(HostDeviceSyncStorm(), **syncing(20, idle_us=200))
    assert issue.evidence["lines"][0]["name"] == "aten::item (train.py:42)"
    assert issue.evidence["lines"][0]["per_step"] == 19
    assert issue.evidence["syncs_per_step"] == 20
    assert "train.py:42" in issue.summary


@pytest.mark.parametrize(("count", "severity"), [(5, None), (30, "info"), (150, "warning")])
def test_without_kernels_syncs_are_counted(count, severity):
    trace = Trace()
    for i in range(30):
        trace.step(i * 10 * MS, 10 * MS, i)
        for k in range(count):
            trace.sync(i * 10 * MS + k * 50 * US, 10 * US)
    tables = {name: trace.tables[name] for name in ("syncs", "steps")}
    issues = found(HostDeviceSyncStorm(), **tables)
    assert [issue.severity for issue in issues] == ([severity] if severity else [])
