"""Tests of the rule OverallSystemUsage."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.tables import look, samples

from holter.rules.system.overall_system_usage import OverallSystemUsage


def test_p16_system_usage_never_fires():
    n = 1000
    random = np.random.default_rng(0)
    cpu = random.uniform(0, 100, n)
    series = {
        ("cpu.util", ""): cpu,
        ("mem.used_pct", ""): random.uniform(10, 20, n),
        ("cpu.iowait", ""): np.zeros(n),
    }
    for i in range(4):
        series["gpu.util", f"gpu{i}"] = random.uniform(0, 100, n)
        series["gpu.mem.used_pct", f"gpu{i}"] = np.full(n, 25.0 * i)
    series["net.rx", "eth0"], series["net.tx", "eth0"] = np.full(n, 1e9), np.full(n, 5e8)
    issues, window = look(OverallSystemUsage(), samples=samples(series))
    assert issues == []
    groups = window.details["nodes"]["n0"]
    six = ("CPU", "GPU", "CPU memory", "GPU memory", "I/O", "Network")
    assert all(set(groups[name]) == {"min", "p50", "p95", "p99", "max"} for name in six)
    assert groups["CPU"]["p95"] == pytest.approx(np.percentile(cpu, 95), rel=0.01)
    assert groups["GPU memory"]["p50"] == pytest.approx(37.5, rel=0.005)
    assert groups["I/O"] == {"min": 0.0, "p50": 0.0, "p95": 0.0, "p99": 0.0, "max": 0.0}
    assert groups["Network"]["max"] == 1.5e9
    assert "Disk" not in groups or groups["Disk"] == {}


def test_system_usage_is_the_same_in_one_piece_and_in_many():
    table = samples({("cpu.util", ""): np.random.default_rng(1).uniform(0, 100, 500)})
    whole = look(OverallSystemUsage(), samples=table)[1].details
    state = {}
    for k in range(0, 500, 100):
        piece = look(OverallSystemUsage(), samples=table.where(np.arange(k, k + 100)), state=state)[1].details
        state = json.loads(json.dumps(state))
    assert piece == whole
