"""A test of a framework is skipped with a reason that says what to do, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frameworks.environments import REQUIREMENTS, python_of


def test_an_environment_fits_its_requirements(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"no environment .* scripts/frameworks catboost makes it"):
        python_of("catboost", tmp_path)
    ready = tmp_path / "catboost/ready"
    ready.parent.mkdir()
    ready.write_text("catboost==1.0\n")
    with pytest.raises(LookupError, match=r"other packages in .* scripts/frameworks catboost renews it"):
        python_of("catboost", tmp_path)
    ready.write_bytes((REQUIREMENTS / "catboost.txt").read_bytes())
    assert python_of("catboost", tmp_path) == tmp_path / "catboost/bin/python"
