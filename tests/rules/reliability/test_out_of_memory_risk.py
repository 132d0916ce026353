"""Tests of the rule OutOfMemoryRisk."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.allocators import TOTAL, allocator, cuda
from tests.rules.tables import ENDED, SECOND, START, codes, found, look, samples

from holter.rules import Job, Window
from holter.rules.reliability.out_of_memory_risk import OutOfMemoryRisk
from holter.schema.table import Table


@pytest.mark.parametrize(
    ("reserved", "needed", "expected"),
    [
        (0.90, 0.89, []),
        (0.93, 0.90, [("device", "warning")]),
        (0.98, 0.95, [("device", "critical")]),
        (0.98, 0.50, []),  # a cache that is given back when it is needed
    ],
)
def test_a_device_that_is_nearly_full(reserved, needed, expected):
    assert codes(found(OutOfMemoryRisk(), job=ENDED, scalars=allocator(reserved, needed))) == expected


def test_a_peak_that_rises_is_a_risk_earlier():
    peaks = np.linspace(0.80, 0.89, 100) * TOTAL
    table = cuda({"cuda.reserved_peak": peaks, "cuda.allocated_peak": peaks, "cuda.total": TOTAL})
    (issue,) = found(OutOfMemoryRisk(), job=ENDED, scalars=table)
    assert (issue.severity, issue.evidence["rises"]) == ("warning", True)


def test_a_level_must_hold_at_two_evaluations_and_a_failure_is_reported_at_once():
    rule, state = OutOfMemoryRisk(), {}
    table = samples({("mem.used_pct", ""): np.full(200, 97.0)})
    assert look(rule, samples=table, state=state)[0] == []
    (issue,) = look(rule, samples=table, state=json.loads(json.dumps(state)))[0]
    assert (issue.code, issue.severity) == ("host", "critical")
    row = {"time": START, "rank": 3, "kind": "oom", "name": "cuda", "detail": "{}"}
    (issue,) = look(rule, events=Table.of("events", [row]))[0]
    assert (issue.code, issue.severity, issue.rank) == ("failed", "critical", 3)
    caught = np.where(np.arange(50) > 30, 2.0, 0.0)
    (issue,) = look(rule, scalars=cuda({"cuda.ooms": caught}))[0]
    assert (issue.code, issue.count) == ("failed", 2)
    assert "default" in OutOfMemoryRisk.packs


@pytest.mark.parametrize(("used", "expected"), [(80, []), (86, "warning"), (96, "critical")])
def test_host_memory(used, expected):
    issues = found(OutOfMemoryRisk(), job=ENDED, samples=samples({("mem.used_pct", ""): np.full(200, used)}))
    assert [issue.severity for issue in issues] == ([expected] if expected else [])


def device(values, owners):
    series = {("gpu.mem.used_pct", "gpu0"): values}
    if owners is not None:
        series["gpu.procs", "gpu0"] = np.full(len(values), float(owners))
    rule, table, state, issues = OutOfMemoryRisk(), samples(series), {}, []
    for end in range(10, len(values) // 2 + 1, 10):  # a look every ten seconds
        bounds = {"start": START + (end - 10) * SECOND, "end": START + end * SECOND}
        window = Window.of(rule.lookback, job=Job(start=START), state=state, samples=table, **bounds)
        issues = list(rule.evaluate(window))
    return issues


def test_memory_that_a_framework_took_all_at_once_is_no_risk():
    assert device(np.full(600, 98.0), 1) == []
    assert codes(device(np.concatenate([np.full(300, 70.0), np.full(300, 98.0)]), 1)) == [
        ("device", "critical")
    ]


@pytest.mark.parametrize("owners", [0, None])
def test_memory_that_may_be_somebody_elses_is_no_risk_of_ours(owners):
    assert device(np.concatenate([np.full(300, 70.0), np.full(300, 98.0)]), owners) == []
