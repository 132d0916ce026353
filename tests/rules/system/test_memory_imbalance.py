"""Tests of the rule MemoryImbalance."""

from __future__ import annotations

import pytest
from tests.rules.allocators import allocator
from tests.rules.tables import found, look

from holter.rules.system.memory_imbalance import MemoryImbalance
from holter.schema.table import Table


def ranks(*peaks):
    return Table.concat([allocator(0.9, peak, rank=r) for r, peak in enumerate(peaks)])


@pytest.mark.parametrize(
    ("peaks", "expected"),
    [
        ((0.5, 0.5, 0.5, 0.5), None),
        ((0.42, 0.3, 0.3, 0.3), "info"),
        ((0.55, 0.3, 0.3, 0.3), "warning"),
        ((0.45, 0.2, 0.2, 0.2), "info"),  # half-empty: costs nothing
        ((0.9, 0.5, 0.5, 0.5), "critical"),
    ],
)
def test_the_fullest_rank_limits_all(peaks, expected):
    issues = found(MemoryImbalance(), scalars=ranks(*peaks))
    assert [issue.severity for issue in issues] == ([expected] if expected else [])
    if expected:
        assert issues[0].evidence["rank"] == 0


def test_one_rank_has_nobody_to_be_compared_with():
    assert look(MemoryImbalance(), scalars=ranks(0.9))[1].lack.reason == "no_match"
