"""Tests of the rule AllocatorFragmentation."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.allocators import allocator
from tests.rules.tables import codes, found

from holter.rules.framework.allocator_fragmentation import AllocatorFragmentation


@pytest.mark.parametrize(
    ("reserved", "allocated", "expected"),
    [
        (0.75, 0.50, [("waste", "warning")]),
        (0.95, 0.60, [("waste", "critical")]),
        (0.95, 0.90, []),
        (0.30, 0.05, []),  # much of little: harmless while memory is free
    ],
)
def test_waste_matters_on_a_full_device(reserved, allocated, expected):
    assert codes(found(AllocatorFragmentation(), scalars=allocator(reserved, allocated))) == expected


@pytest.mark.parametrize(("retries", "expected"), [(0, []), (1, "warning"), (6, "critical"), (0.4, "info")])
def test_the_rate_of_retries_determines_the_severity(retries, expected):
    rising = np.linspace(3, 3 + retries, 50)
    table = allocator(0.9, 0.85, steps=50, alloc_retries=rising)
    issues = found(AllocatorFragmentation(), scalars=table)
    assert codes(issues) == ([("retries", expected)] if expected else [])


def test_out_of_memory_on_a_fragmented_device_is_critical():
    table = allocator(0.6, 0.4, ooms=np.where(np.arange(100) > 80, 1.0, 0.0))
    assert codes(found(AllocatorFragmentation(), scalars=table)) == [("waste", "critical")]
