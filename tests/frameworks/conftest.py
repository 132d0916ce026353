"""Tests marked `framework("NAME")` train in the environment that `scripts/frameworks NAME` makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frameworks.environments import python_of


@pytest.fixture(scope="module")
def framework_python(request: pytest.FixtureRequest) -> Path:
    """The Python of the framework that the module names: `pytestmark = pytest.mark.framework("NAME")`."""
    marker = request.node.get_closest_marker("framework")
    assert marker is not None, f"{request.node.nodeid} has no marker framework"
    try:
        return python_of(*marker.args)
    except LookupError as missing:
        pytest.skip(str(missing))
