"""Tests of the rule H2DBound."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.overheads import WARM, copies
from tests.rules.tables import SECOND, START, found, steps

from holter.rules.framework.h2d_bound import H2DBound
from holter.schema.table import Table


def test_copies_that_take_as_long_as_their_bytes():
    (issue,) = found(H2DBound(), job=WARM, **copies(0.3, size=450e6))
    assert issue.severity == "critical"
    assert issue.evidence["share_pct"] == pytest.approx(30)


def test_a_copy_that_waits_for_the_gpu_is_not_blamed():
    assert found(H2DBound(), job=WARM, **copies(0.8, size=1e6)) == []
    assert found(H2DBound(), job=WARM, **copies(0.3, size=np.nan)) == []


def test_in_a_trace_only_copies_that_no_kernel_hides_count():
    table = steps([1.0] * 60)
    at = START + np.arange(60) * SECOND
    kernels = Table.of(
        "kernels", [{"time": t, "duration": 600_000_000, "rank": 0, "step": 0} for t in at.tolist()]
    )

    def judged(offset: int) -> list[str]:
        rows = [{"time": t + offset, "duration": 300_000_000, "rank": 0, "kind": "h2d"} for t in at.tolist()]
        moved = Table.of("memory_operations", rows)
        issues = found(H2DBound(), job=WARM, steps=table, kernels=kernels, memory_operations=moved)
        return [i.severity for i in issues]

    assert judged(100_000_000) == []
    assert judged(650_000_000) == ["critical"]
