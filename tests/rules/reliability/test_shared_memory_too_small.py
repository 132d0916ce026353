"""Tests of the rule SharedMemoryTooSmall."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.tables import MIB, START, found, look, samples

from holter.rules import Job
from holter.rules.reliability.shared_memory_too_small import SharedMemoryTooSmall
from holter.schema.table import Table

JOB = Job(start=START, nodes={"n0": {"cpus": 8, "shm_bytes": 64 * MIB}})


@pytest.mark.parametrize(("used", "severity"), [(4, None), (48, "warning"), (62, "critical")])
def test_use(used, severity):
    table = samples({("shm.used", ""): np.full(60, used * MIB)})
    issues = found(SharedMemoryTooSmall(), job=JOB, samples=table)
    assert [issue.severity for issue in issues] == ([severity] if severity else [])


def test_a_peak_of_one_reading_is_no_finding():
    table = samples({("shm.used", ""): [4 * MIB] * 59 + [63 * MIB]})
    assert found(SharedMemoryTooSmall(), job=JOB, samples=table) == []


@pytest.mark.parametrize(
    "message",
    [
        "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers "
        "are out of shared memory. Please try to raise your shared memory limit.",
        "Caught RuntimeError in DataLoader worker process 1.\nRuntimeError: unable to allocate shared "
        "memory(shm) for file </torch_1>: No space left on device (28)",
    ],
)
def test_a_worker_that_died_of_it(message):
    detail = json.dumps({"type": "RuntimeError", "message": message})
    row = {"time": START, "rank": 0, "kind": "exception", "detail": detail, "node": "n0"}
    (issue,) = found(SharedMemoryTooSmall(), job=JOB, events=Table.of("events", [row]))
    assert (issue.code, issue.severity, issue.rank) == ("died", "critical", 0)
    assert "64 MiB" in issue.summary


def test_without_readings_nothing_is_judged():
    issues, window = look(SharedMemoryTooSmall(), job=JOB)
    assert issues == []
    assert window.lack.reason == "no_input"
