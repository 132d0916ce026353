"""Fixtures of the tests of real jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.jobs.starting import Jobs


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    """A place to start jobs."""
    return Jobs(tmp_path / "store")
