"""A spool directory for scripts that are recorded, and the folder of real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def spool(tmp_path):
    path = tmp_path / "spool"
    path.mkdir()
    return path


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real traces, SageMaker's among them."""
    path = Path(os.environ.get("HOLTER_DATA", "../shared/data"))
    if not (path / "sagemaker").is_dir():
        pytest.skip(f"{path} is not here; HOLTER_DATA names the folder of real traces")
    return path
