"""Traces are imported by workers of Ray on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frameworks.cluster_import import imported, traces

pytestmark = [pytest.mark.framework("ray"), pytest.mark.slow]


def test_import(framework_python: Path, tmp_path: Path) -> None:
    imported(framework_python, traces(tmp_path), "ray")
