"""Tests of the rule UnusedGPU."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import GIB, MIB, SECOND, START, codes, look, samples

from holter.rules import Job
from holter.rules.system.unused_gpu import UnusedGPU
from holter.schema.table import Table


def unused(util, memory, *, minutes=15, trainers=None, cuda=False, ranks=1):
    count, each = minutes * 12, len(util)
    metrics = {"util": [float(u) for u in util], "mem.used": [float(m) for m in memory]}
    series = {
        ("gpu." + name, f"gpu{i}"): np.full(count, values[i])
        for name, values in metrics.items()
        for i in range(each)
    }
    for i, owners in enumerate(trainers or []):
        series["gpu.procs", f"gpu{i}"] = np.full(count, float(owners))
    scalars = [{"time": START + SECOND, "rank": 0, "step": 1, "name": "cuda.total", "value": 80.0 * GIB}]
    warm = dict.fromkeys(range(ranks), START + 2 * SECOND)
    return look(
        UnusedGPU(),
        job=Job(start=START, first_step=START + SECOND, warm=warm, trainers=True),
        samples=samples(series, interval_s=5.0),
        scalars=Table.of("scalars", scalars if cuda else []),
    )


def test_a_gpu_that_is_visible_and_not_used():
    issues, _ = unused([90, 0], [40 * GIB, 10 * MIB], trainers=[1, 0])
    assert codes(issues) == [("world_smaller_than_devices", "critical")]
    assert issues[0].evidence["unused"] == ["gpu1"]
    issues, _ = unused([90] * 7 + [0], [40 * GIB] * 7 + [0], trainers=[1] * 7 + [0])
    assert codes(issues) == [("world_smaller_than_devices", "warning")]
    issues, _ = unused([90, 0], [40 * GIB, 0], cuda=True)
    assert issues


@pytest.mark.parametrize(
    "about",
    [
        {
            "util": [90, 0],
            "memory": [40 * GIB, 0],
            "trainers": [0, 0],
        },  # somebody else's job, ours is on the CPU
        {"util": [90, 0], "memory": [40 * GIB, 0]},  # whose it is cannot be told
        {"util": [90, 0], "memory": [40 * GIB, 2 * GIB], "trainers": [1, 0]},  # somebody holds it
        {"util": [90, 0], "memory": [40 * GIB, 0], "trainers": [1, 0], "minutes": 5},
        {"util": [0, 0], "memory": [0, 0], "trainers": [1, 0]},
        {"util": [90, 60], "memory": [40 * GIB, 40 * GIB], "trainers": [1, 1]},
    ],
)
def test_a_gpu_is_not_called_unused_without_good_reason(about):
    assert unused(about.pop("util"), about.pop("memory"), **about)[0] == []


def test_two_processes_on_one_gpu_while_another_is_free():
    issues, _ = unused([90, 0], [40 * GIB, 0], trainers=[2, 0], minutes=3)
    assert codes(issues) == [("two_ranks_one_device", "warning")]
    assert unused([90], [40 * GIB], trainers=[2])[0] == []
