"""Environments of frameworks that the project's own environment does not have."""

from __future__ import annotations

import os
from pathlib import Path

from tests.jobs.starting import ROOT

REQUIREMENTS = Path(__file__).parent / "requirements"
ENVIRONMENTS = Path(os.environ.get("HOLTER_FRAMEWORKS") or ROOT / ".frameworks")


def python_of(name: str, environments: Path = ENVIRONMENTS) -> Path:
    """Return the Python of a framework's environment.

    Raises:
        LookupError: The environment is missing or has other packages; the text says what makes it.
    """
    ready = environments / name / "ready"
    wanted = (REQUIREMENTS / f"{name}.txt").read_text()
    if not ready.exists():
        raise LookupError(f"no environment {ready.parent}; scripts/frameworks {name} makes it")
    if ready.read_text() != wanted:
        raise LookupError(f"other packages in {ready.parent}; scripts/frameworks {name} renews it")
    return ready.parent / "bin" / "python"
