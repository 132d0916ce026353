"""Tests of the rule CpuBoundLaunch."""

from __future__ import annotations

import pytest
from tests.rules.tables import codes, found
from tests.rules.traces import MS, US, Trace

from holter.rules.framework.cpu_bound_launch import CpuBoundLaunch


def launching(*, gap_us, kernel_us, late, count=8, kernels=100, loading=""):
    """Kernels with gaps between them; the host launches each in the gap (late) or far ahead."""
    trace = Trace()
    length = kernels * (gap_us + kernel_us) * US
    for i in range(count):
        at = i * length
        trace.step(at, length, i)
        for k in range(kernels):
            begin = at + k * (gap_us + kernel_us) * US
            launched = begin - gap_us * US if late else begin - 3 * MS
            trace.kernel(begin, kernel_us * US, launched=launched)
        if loading == "recorded":
            trace.span("data_loading", at, length)
        elif loading:
            trace.operator("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, length)
    return trace.tables


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({"gap_us": 30, "kernel_us": 8, "late": True}, [("small_kernels", "critical")]),
        ({"gap_us": 30, "kernel_us": 100, "late": True}, [("python_overhead", "warning")]),
        ({"gap_us": 10, "kernel_us": 100, "late": True}, [("python_overhead", "info")]),
        ({"gap_us": 3, "kernel_us": 100, "late": True}, []),
        ({"gap_us": 30, "kernel_us": 8, "late": False}, []),  # dependencies between streams, not the host
        ({"gap_us": 30, "kernel_us": 8, "late": True, "loading": "recorded"}, []),
        ({"gap_us": 30, "kernel_us": 8, "late": True, "loading": "imported"}, []),
    ],
)
def test_gaps_are_the_hosts_fault_only_where_it_asked_late(about, expected):
    assert codes(found(CpuBoundLaunch(), **launching(**about))) == expected


def test_the_share_of_launch_gaps_is_exact():
    (issue,) = found(CpuBoundLaunch(), **launching(gap_us=20, kernel_us=80, late=True))
    assert issue.evidence["launch_gap_pct"] == pytest.approx(20, abs=0.1)
    assert issue.device == "gpu0"
