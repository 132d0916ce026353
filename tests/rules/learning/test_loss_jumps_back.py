"""LossJumpsBack compares losses before and after a restart."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.facts import again, scalars, watched

from holter.rules import LossJumpsBack, check_rule

FALLS = np.linspace(2.3, 0.4, 60).tolist()


def told(rows, events=(), pieces=1):
    found = check_rule(LossJumpsBack(), {"scalars": rows, "events": [watched(0), *events]}, pieces=pieces)
    return [issue.summary for issue in found]


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_process_that_was_started_again(pieces):
    rows = scalars(loss=FALLS)
    (text,) = told([*rows, *again(rows)], pieces=pieces)
    assert "after the process was started again" in text
    assert not told([*rows, *again(scalars(loss=[0.45] * 60))], pieces=pieces)
    assert not told([*rows, *again(scalars(loss=[1.0] * 60))], pieces=pieces)  # an older checkpoint


def test_a_checkpoint_that_is_loaded():
    resumed = {"file": "last.pt", "step": 60, "optimizers_loaded": 1}
    rows = scalars(loss=FALLS + FALLS)
    (text,) = told(rows, [watched(61, resumed=resumed)])
    assert "after last.pt was loaded at step 60" in text
    assert not told(rows, [watched(61, resumed={**resumed, "optimizers_loaded": 0})])  # no resume
    assert not told(rows)


def test_a_training_that_had_learned_nothing_loses_nothing():
    rows = scalars(loss=[2.3] * 60)
    assert not told([*rows, *again(rows)])
