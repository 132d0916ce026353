"""Tests of the rule LoaderWorkerImbalance."""

from __future__ import annotations

import pytest
from tests.rules.loaders import fetches
from tests.rules.overheads import WARM
from tests.rules.tables import found, look, steps

from holter.rules.framework.loader_worker_imbalance import LoaderWorkerImbalance


def test_a_worker_that_is_slower_than_the_others():
    table = steps([1.0] * 60, data_loading=0.3, forward=0.7)
    (issue,) = found(LoaderWorkerImbalance(), job=WARM, steps=table, spans=fetches([0.2, 0.2, 0.2, 0.9]))
    assert (issue.severity, issue.evidence["worker"]) == ("warning", 3)
    assert found(LoaderWorkerImbalance(), job=WARM, steps=table, spans=fetches([0.2, 0.3, 0.25, 0.2])) == []


def test_a_slow_worker_nobody_waits_for_is_no_news():
    slow = fetches([0.2, 0.2, 0.2, 0.9])
    hidden = steps([1.0] * 60, data_loading=0.001, forward=0.9)
    assert found(LoaderWorkerImbalance(), job=WARM, steps=hidden, spans=slow) == []
    little = steps([1.0] * 60, data_loading=0.02, forward=0.9)
    assert [i.severity for i in found(LoaderWorkerImbalance(), job=WARM, steps=little, spans=slow)] == [
        "info"
    ]


@pytest.mark.parametrize(
    ("spans", "reason"),
    [(fetches([0.1]), "no_match"), (fetches([0.1, 0.9], count=5), "too_few_points"), (None, "no_input")],
)
def test_workers_that_cannot_be_compared(spans, reason):
    given = {"spans": spans} if spans is not None else {}
    issues, window = look(
        LoaderWorkerImbalance(), job=WARM, steps=steps([1.0] * 60, data_loading=0.5), **given
    )
    assert issues == []
    assert window.lack.reason == reason
