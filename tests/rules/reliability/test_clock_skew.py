"""Tests of the rule ClockSkew."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.ranks import WARM, noisy, synchronous
from tests.rules.tables import START, found, look

from holter.rules.reliability.clock_skew import ClockSkew
from holter.schema.table import Table


def clock(moved_ms: float) -> Table:
    detail = json.dumps({"moved_ns": round(moved_ms * 1e6)})
    return Table.of("events", [{"time": START, "kind": "clock", "detail": detail, "node": "n0"}])


@pytest.mark.parametrize(("moved", "severity"), [(30, None), (-120, "info"), (5000, "warning")])
def test_a_clock_that_moved(moved, severity):
    issues = found(ClockSkew(), events=clock(moved))
    assert [i.severity for i in issues] == ([severity] if severity else [])


def test_nodes_that_end_the_same_steps_apart():
    own = noisy(np.random.default_rng(31), 8, 100)
    table = synchronous(own, ranks_per_node=4, skew_ms={"n1": 3000})
    (issue,) = found(ClockSkew(), job=WARM, steps=table)
    assert (issue.node, issue.severity) == ("n1", "warning")
    assert issue.evidence["skew_ms"] == pytest.approx(3000, rel=0.01)
    ahead = synchronous(own, ranks_per_node=4, skew_ms={"n1": 80})
    assert found(ClockSkew(), job=WARM, steps=ahead) == []


def test_nodes_that_do_not_wait_for_each_other_say_nothing_about_clocks():
    table = synchronous(np.full((2, 100), 100.0), ranks_per_node=1, skew_ms={"n1": 5000})
    alone = Table({**table.columns, "communication": np.zeros(table.rows, dtype=np.int64)})
    issues, window = look(ClockSkew(), job=WARM, steps=alone)
    assert issues == []
    assert window.lack.reason == "no_match"
