"""Tests of the rule NoCheckpoint."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.overheads import WARM, spans
from tests.rules.tables import found, look, steps

from holter.rules.reliability.no_checkpoint import NoCheckpoint


def test_hours_without_a_checkpoint():
    table = steps([60.0] * 300)
    (issue,) = found(NoCheckpoint(), job=WARM, steps=table)
    assert issue.evidence["hours"] == pytest.approx(5)
    saved = spans("checkpoint", np.array([2.0 * 3600]), 1)
    assert found(NoCheckpoint(), job=WARM, steps=table, spans=saved) == []
    assert look(NoCheckpoint(planned_h=72), job=WARM, steps=table)[0] == []
    assert look(NoCheckpoint(), job=WARM, steps=steps([60.0] * 30))[1].lack.reason == "patience_not_reached"
