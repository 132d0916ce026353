"""A spool directory for scripts that are recorded."""

from __future__ import annotations

import pytest


@pytest.fixture
def spool(tmp_path):
    path = tmp_path / "spool"
    path.mkdir()
    return path
