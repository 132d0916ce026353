"""Tests of the comparison of speeds."""

from __future__ import annotations

import numpy as np
import pytest

from holter.rules.patterns.speed import mann_whitney


def test_mann_whitney_agrees_with_tables():
    # All of the 20 lower: z of the normal approximation is -5.396 with the correction for continuity.
    assert mann_whitney(np.arange(20.0), np.arange(20.0) + 100) == pytest.approx(3.4e-8, rel=0.02)
    assert mann_whitney(np.arange(20.0), np.arange(20.0)) == pytest.approx(0.5, abs=0.02)
    assert mann_whitney(np.ones(20), np.ones(20)) == 1.0
