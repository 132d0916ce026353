"""Traces are imported by a worker of Dask, through a scheduler on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.frameworks.cluster_import import imported, traces
from tests.jobs.starting import environment
from tests.ports import free_port

pytestmark = [pytest.mark.framework("dask"), pytest.mark.slow]


@pytest.fixture
def scheduler(framework_python: Path, tmp_path: Path) -> Iterator[str]:
    """Return the address of a scheduler of Dask with one worker."""
    address = f"tcp://127.0.0.1:{free_port()}"
    words = [str(framework_python), "-m", "distributed.cli.dask_scheduler"]
    commands = [
        [*words, "--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--no-dashboard"],
        [*words[:2], "distributed.cli.dask_worker", address, "--nworkers", "1", "--no-dashboard"],
    ]
    started = [
        subprocess.Popen(
            command,
            env=environment(),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    yield address
    for process in reversed(started):
        process.terminate()
    for process in started:
        process.wait(30)


def test_import(framework_python: Path, scheduler: str, tmp_path: Path) -> None:
    imported(framework_python, traces(tmp_path), f"dask:{scheduler}")
