"""Tests of the rule GCPause."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.overheads import WARM, collecting, spans
from tests.rules.tables import found, steps

from holter.rules.framework.gc_pause import GCPause


def test_p19_unsynchronised_collection_is_critical():
    (issue,) = found(GCPause(min_lost_s=1), job=WARM, **collecting(512, together=False))
    assert issue.evidence["cost_pct"] == pytest.approx(10, abs=1)
    assert issue.evidence["own_pct"] == pytest.approx(0.1)
    assert (issue.code, issue.severity) == ("unsynchronised", "critical")


def test_p19_collection_of_all_ranks_together_costs_nothing():
    assert found(GCPause(min_lost_s=0), job=WARM, **collecting(512, together=True)) == []


def test_short_pauses_in_tiny_steps_are_no_news():
    table = steps([0.0001] * 20_000)
    pauses = spans("gc", np.arange(20) * 0.1, 0.001, step=np.arange(20) * 1000, value=0)
    assert found(GCPause(), job=WARM, steps=table, spans=pauses) == []


@pytest.mark.parametrize(
    ("pause", "count", "severity"),
    [(0.4, 300, None), (0.6, 300, "warning"), (3, 300, "critical"), (3, 6000, "info")],
)
def test_one_long_pause(pause, count, severity):
    table = steps([0.2] * count)
    issues = found(GCPause(), job=WARM, steps=table, spans=spans("gc", np.array([5.0]), pause, step=25))
    assert [i.severity for i in issues if i.code == "pause"] == ([severity] if severity else [])
