"""Tests of the rule ObserverOverhead."""

from __future__ import annotations

import json

import pytest
from tests.rules.overheads import WARM
from tests.rules.tables import SECOND, START, found, samples

from holter.rules import Job
from holter.rules.reliability.observer_overhead import ObserverOverhead
from holter.schema.table import Table

NODES = {"n0": {"cpus": 4}}


# --- holter itself, and the first step


def agent(cpu: float, busy: float) -> Table:
    values = {("agent.cpu", ""): [cpu] * 600, ("cpu.util", ""): [busy] * 600}
    return samples(values, interval_s=0.5)


def test_the_agent_takes_cpu_that_training_needs():
    job = Job(start=START, nodes=NODES)
    (issue,) = found(ObserverOverhead(), job=job, samples=agent(20, 95))
    assert (issue.severity, issue.node, issue.evidence["share_pct"]) == ("warning", "n0", pytest.approx(5))
    (idle,) = found(ObserverOverhead(), job=job, samples=agent(20, 30))
    assert idle.severity == "info"
    assert found(ObserverOverhead(), job=job, samples=agent(3, 95)) == []


def test_the_recorder_takes_time_of_the_training_thread():
    def end(cost_s: float) -> Table:
        row = {"time": START + 200 * SECOND, "kind": "end", "detail": json.dumps({"cost_ns": cost_s * 1e9})}
        return Table.of("events", [{"rank": 0, **row}])

    (issue,) = found(ObserverOverhead(), job=WARM, events=end(20))
    assert (issue.severity, issue.code) == ("critical", "recorder")
    assert found(ObserverOverhead(), job=WARM, events=end(0.5)) == []
