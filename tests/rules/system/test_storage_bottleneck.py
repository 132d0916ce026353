"""Tests of the rule StorageBottleneck."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import found, look, samples, severities, steps

from holter.rules.system.storage_bottleneck import StorageBottleneck


def storage(psi, loading, *, wait=None, iops=200.0):
    series = {("psi.io", ""): np.full(600, float(psi))}
    if wait is not None:
        series |= {("disk.await", ""): np.full(600, float(wait)), ("disk.iops", ""): np.full(600, iops)}
    return found(StorageBottleneck(), samples=samples(series), steps=steps([1.0] * 300, data_loading=loading))


@pytest.mark.parametrize(
    ("psi", "loading", "expected"),
    [
        (30, 0.15, ["warning"]),
        (50, 0.3, ["critical"]),
        (50, 0.15, ["warning"]),
        (50, 0.02, []),
        (10, 0.5, []),
    ],
)
def test_storage_matters_only_where_training_waits(psi, loading, expected):
    assert severities(storage(psi, loading)) == expected


def test_a_slow_disk_is_a_note_where_it_is_used():
    (issue,) = storage(1, 0.01, wait=80)
    assert (issue.severity, issue.code) == ("info", "slow_disk")
    assert storage(1, 0.01, wait=80, iops=1.0) == []


def test_without_pressure_or_waits_storage_is_not_judged():
    issues, window = look(StorageBottleneck(), steps=steps([1.0] * 300, data_loading=0.9))
    assert (issues, window.lack.reason) == ([], "no_input")
