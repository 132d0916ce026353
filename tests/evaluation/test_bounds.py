"""A job of any length: what is kept in memory and in the store does not grow with it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from holter.evaluation import choose
from holter.evaluation.evaluator import Evaluator
from holter.evaluation.facts import FactsTracker
from holter.rules import catalogue
from holter.schema.table import Table

START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
MINUTE = 60


def rows_of_a_minute(minute: int) -> dict[str, Table]:
    begin = START + minute * MINUTE * SECOND
    random = np.random.default_rng(minute)
    series = {
        ("gpu.util", "gpu0"): (80, 99),
        ("cpu.core.util", "cpu0"): (20, 60),
        ("proc.private", "trainer"): (1e9, 1.1e9),
    }
    samples = [
        {
            "time": begin + i * SECOND,
            "metric": metric,
            "device": device,
            "value": random.uniform(*limits),
            "node": "n",
        }
        for i in range(MINUTE)
        for (metric, device), limits in series.items()
    ]
    spans: list[dict[str, Any]] = []
    for i in range(MINUTE):
        at = {"rank": 0, "node": "n", "step": minute * MINUTE + i, "mode": "train", "worker": -1}
        loading = int(random.normal(0.02, 0.001) * SECOND)
        spans.append(
            {**at, "time": begin + i * SECOND, "duration": loading, "phase": "data_loading", "value": 0.0}
        )
        spans.append(
            {**at, "time": begin + i * SECOND + loading, "duration": SECOND // 2, "phase": "forward"}
        )
        spans.append({**at, "time": begin + i * SECOND, "duration": SECOND, "phase": "step"})
    if minute % 60 == 59:  # a checkpoint every hour
        last = {"rank": 0, "node": "n", "step": minute * MINUTE + MINUTE - 1, "mode": "train", "worker": -1}
        end = begin + MINUTE * SECOND
        spans.append(
            {**last, "time": end - SECOND // 5, "duration": SECOND // 5, "phase": "checkpoint", "value": 1e9}
        )
    loss = [
        {
            "time": begin + i * SECOND,
            "step": minute * MINUTE + i,
            "name": "loss",
            "value": 0.9999 ** (minute * MINUTE + i),
        }
        for i in range(MINUTE)
    ]
    return {
        "samples": Table.of("samples", samples),
        "spans": Table.of("spans", spans),
        "scalars": Table.of("scalars", loss),
    }


def size(evaluator: Evaluator) -> int:
    """Count the rows that are kept, wherever they are."""
    recent = evaluator._recent
    kept = [one for places in recent._series.values() for one in places.values()] + list(
        recent._rows.values()
    )
    waiting = sum(table.rows for table in evaluator._pending + evaluator._known)
    return sum(len(one._due) + sum(len(due) for due, _ in one._chunks) for one in kept) + waiting


def test_memory_and_progress_stay_as_they_are():
    runs = choose(catalogue())
    evaluator = Evaluator(runs, FactsTracker(start=START, interval_ms=1000, nodes={}))
    sizes: dict[int, int] = {}
    kept: dict[int, int] = {}
    for minute in range(300):
        for name, table in rows_of_a_minute(minute).items():
            evaluator.take(name, table)
        evaluator.advance(START + (minute + 1) * MINUTE * SECOND - 1)
        sizes[minute] = size(evaluator)
        kept[minute] = len(json.dumps([run.kept() for run in runs]))
    # Two hours is the farthest that any rule looks back.
    assert max(sizes[m] for m in range(240, 300)) <= 1.05 * max(sizes[m] for m in range(150, 240))
    assert kept[299] < 1.2 * kept[150]
    assert kept[299] < 870 * len(runs)  # bytes: 100 kB for 115 rules
    judged = {run.name for run in runs if run.covered > 0}
    assert judged >= {"CPUBottleneck", "HostMemoryLeak", "LowGPUUtilization", "NonFiniteLoss", "StepOutlier"}
    assert {run.name: run.status for run in runs if run.issues or run.failures} == {}
