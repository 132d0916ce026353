"""Tests of the rule CPUOversubscription."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import found, samples, severities

from holter.rules.system.cpu_oversubscription import CPUOversubscription


def cpu(*, cores=8, count=240, **metrics):
    series = {("cpu.core.util", f"cpu{i}"): np.full(count, 95.0) for i in range(cores)}
    for name, value in metrics.items():
        metric = {
            "throttled": "cgroup.throttled_pct",
            "psi": "psi.cpu",
            "load": "cpu.load1",
            "util": "cpu.util",
            "own": "proc.cpu",
        }
        series[metric[name], "trainer" if name == "own" else ""] = np.full(count, float(value))
    return samples(series)


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({"throttled": 0.5}, []),
        ({"throttled": 2}, ["info"]),
        ({"throttled": 8}, ["warning"]),
        ({"throttled": 40}, ["critical"]),
        ({"load": 8, "util": 97}, []),
        ({"load": 10, "util": 97}, ["info"]),
        ({"load": 13, "util": 97}, ["warning"]),
        ({"load": 30, "util": 97}, ["critical"]),
        ({"load": 30, "util": 40}, []),  # they wait for disks, or are somebody else's
        ({"load": 13, "util": 97, "psi": 70}, ["critical"]),
        ({"load": 8, "util": 97, "psi": 70}, []),  # as many threads as cores
        ({"util": 97, "psi": 40}, ["warning"]),
        ({"util": 30, "psi": 70}, []),
        ({"load": 30, "util": 97, "psi": 90, "own": 100}, []),  # one thread of the job among many of others
        ({"load": 30, "util": 97, "psi": 90, "own": 700}, ["critical"]),
    ],
)
def test_more_threads_than_cores(about, expected):
    assert severities(found(CPUOversubscription(), samples=cpu(**about))) == expected


def test_the_quota_is_named_first():
    (issue,) = found(CPUOversubscription(), samples=cpu(throttled=40, load=30, util=99))
    assert issue.code == "throttled"
    assert "quota" in issue.advice
