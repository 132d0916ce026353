"""Tests of the rule EvalOverhead."""

from __future__ import annotations

import pytest
from tests.rules.overheads import WARM, every
from tests.rules.tables import found, look

from holter.rules.framework.eval_overhead import EvalOverhead

# --- evaluation


@pytest.mark.parametrize(("spent", "severity"), [(5, None), (20, "info"), (50, "warning"), (120, "critical")])
def test_evaluation_by_its_share_of_whole_cycles(spent, severity):
    issues = found(EvalOverhead(), job=WARM, steps=every(100, 500, 1.0, spent, "eval"))
    assert [i.severity for i in issues] == ([severity] if severity else [])


def test_an_evaluation_before_training_does_not_count():
    issues, window = look(EvalOverhead(), job=WARM, steps=every(100, 60, 1.0, 600, "eval", offset=99))
    assert issues == []
    assert window.lack.reason == "too_few_points"
