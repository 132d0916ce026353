"""A fixed sample of faults, each in a training of its own; `benchmarks/faults.py` tries many more."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.faults.combinations import Combination
from tests.faults.striking import judged
from tests.faults.struck_training import library

SAMPLE = (
    Combination("rank", "step", "SIGKILL", "ranks"),
    Combination("agent", "step", "SIGKILL", "worker"),
    Combination("store", "step", "ENOSPC"),
    Combination("spool", "step", "missing"),
)
"""Each takes about five seconds of a core, so CI runs few."""


@pytest.fixture(scope="module")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What makes calls fail."""
    try:
        return library(tmp_path_factory.mktemp("preload"))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("calls are made to fail by a library that a C compiler makes")


@pytest.mark.parametrize("combination", SAMPLE, ids=str)
def test_a_fault_harms_neither_the_training_nor_the_job(combination, tmp_path, preload) -> None:
    result = judged(combination, tmp_path, preload)
    assert not result.problems, result.err
    assert not result.not_struck
