"""The third-party files of the dashboard, which a checkout may lack."""

from __future__ import annotations

from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "src/holter/pages/app"
fetched = pytest.mark.skipif(
    not (APP / "vendor/ready").is_file(),
    reason="no third-party files here: `python hatch_build.py` needs npm and its registry",
)
