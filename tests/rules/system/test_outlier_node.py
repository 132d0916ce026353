"""Tests of the rule OutlierNode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, look

from holter.rules import Job
from holter.rules.system.outlier_node import OutlierNode
from holter.schema.table import Table

JOB = Job(start=START, first_step=START, warm={0: START})
USUAL = {"gpu.util": 90.0, "gpu.power": 600.0, "gpu.temp": 60.0, "cpu.util": 30.0, "net.tx": 2e9}


def cluster(nodes: int, changes: dict[str, dict[str, Any]], *, gpus: int = 2, seconds: int = 320) -> Table:
    """Return readings of nodes, every 5 s; `changes`: node → metric → factor, for its first device."""
    random = np.random.default_rng(1)
    time = START + np.arange(1, seconds // 5 + 1) * 5 * SECOND
    parts: dict[str, list[Any]] = {name: [] for name in ("time", "device", "metric", "value", "node")}
    for node in (f"n{at}" for at in range(nodes)):
        for metric, usual in USUAL.items():
            for device in range(gpus if metric.startswith("gpu.") else 1):
                factor = changes.get(node, {}).get(metric, 1.0) if device == 0 else 1.0
                parts["time"].append(time)
                parts["value"].append(usual * factor * random.normal(1, 0.05, len(time)))
                name = f"gpu{device}" if metric.startswith("gpu.") else ""
                for column, text in (("device", name), ("metric", metric), ("node", node)):
                    parts[column].append(np.full(len(time), text, object))
    return Table({name: np.concatenate(values) for name, values in parts.items()}).sorted("time")


def found(table: Table, rule: OutlierNode | None = None) -> list[Any]:
    issues, window = look(rule or OutlierNode(), job=JOB, samples=table)
    assert window.points
    return issues


@pytest.mark.parametrize(
    ("metric", "factor"), [("gpu.power", 0.6), ("gpu.temp", 1.4), ("cpu.util", 3.0), ("net.tx", 0.3)]
)
def test_one_node_that_differs(metric: str, factor: float) -> None:
    (issue,) = found(cluster(16, {"n5": {metric: factor}}))
    assert issue.node == "n5"
    assert issue.evidence["metrics"] == [metric]
    assert issue.evidence["value"] == pytest.approx(USUAL[metric] * factor, rel=0.1)
    assert metric in issue.summary


def test_alike_nodes_and_differences_that_are_small_or_usual() -> None:
    assert found(cluster(16, {})) == []
    assert found(cluster(16, {"n5": {"gpu.power": 0.9}})) == []
    # Half of the nodes are of another kind.
    assert found(cluster(16, {f"n{at}": {"gpu.power": 0.5} for at in range(7)})) == []


def test_a_few_nodes_give_no_majority() -> None:
    issues, window = look(OutlierNode(), job=JOB, samples=cluster(3, {"n1": {"gpu.power": 0.5}}))
    assert issues == []
    assert window.lack.reason == "no_match"


def test_the_beginning_is_not_judged() -> None:
    table = cluster(8, {"n1": {"gpu.power": 0.5}}, seconds=100)
    issues, window = look(OutlierNode(), job=JOB, samples=table)
    assert issues == []
    assert window.lack.reason == "patience_not_reached"
