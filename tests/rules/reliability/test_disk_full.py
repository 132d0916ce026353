"""Tests of the rule DiskFull."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import GIB, found, look, samples, severities

from holter.rules.reliability.disk_full import DiskFull


def disk(share, *, size_gib=200.0, minutes=30):
    """Free space every ten seconds: one value, or one for each reading."""
    share = np.broadcast_to(np.asarray(share, dtype=float), minutes * 6)
    series = {("disk.free_pct", ""): share, ("disk.free", ""): share / 100 * size_gib * GIB}
    return samples(series, interval_s=10.0)


@pytest.mark.parametrize(
    ("share", "size", "expected"),
    [
        (12, 200, []),
        (8, 200, ["warning"]),
        (1, 200, ["critical"]),
        (8, 8000, []),  # 640 GiB are enough, whatever their share
        (1, 8000, ["critical"]),
    ],
)
def test_little_space(share, size, expected):
    assert severities(found(DiskFull(), samples=disk(share, size_gib=size))) == expected


def test_space_that_is_used_up_soon():
    fast = np.linspace(60, 40, 180)  # 40 points an hour: one hour left
    (issue,) = found(DiskFull(), samples=disk(fast))
    assert issue.severity == "warning"
    assert issue.evidence["hours_left"] == pytest.approx(1.0, abs=0.1)
    slow = np.linspace(60, 58, 180)
    assert found(DiskFull(), samples=disk(slow)) == []


def test_checkpoints_that_come_and_go_do_not_fill_a_disk():
    random = np.random.default_rng(2)
    saw = 50 - (np.arange(180) % 45) * 0.5
    jump = np.where(np.arange(180) > 90, 45.0, 60.0)
    for values in (saw, jump, 50 + random.normal(0, 1, 180)):
        assert found(DiskFull(), samples=disk(values)) == []


def test_a_store_on_no_disk_says_so():
    assert look(DiskFull(), samples=samples({("cpu.util", ""): [1.0]}))[1].lack.reason == "no_input"
