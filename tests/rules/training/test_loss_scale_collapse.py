"""Tests of the rule LossScaleCollapse."""

from __future__ import annotations

import pytest
from tests.rules.training_rows import judged, run, same_in_pieces, scalars, spans

from holter.rules.training.loss_scale_collapse import LossScaleCollapse
from holter.schema.table import Table


def scaled(skipped, n=1200, *, scale=65536.0, first=0):
    falls, now = set(skipped), scale
    series = []
    for step in range(n):
        series.append(now)
        now = now / 2 if step in falls else now
    return {"scalars": scalars(loss_scale=series), "spans": spans("skipped", skipped)}


def test_a_scaler_that_probes_is_healthy():
    # From 2^24 down at the start, then one skip in 2000 steps.
    assert judged(LossScaleCollapse(), **scaled([*range(9), 700], scale=2.0**24)) == []


@pytest.mark.parametrize(("every", "severity"), [(60, "info"), (12, "warning"), (4, "critical")])
def test_the_share_of_skipped_steps_decides(every, severity):
    tables = scaled(list(range(150, 1200, every)))
    tables["scalars"] = scalars(loss_scale=[65536.0] * 1200)
    (issue,) = same_in_pieces(LossScaleCollapse(), **tables)
    assert (issue.code, issue.severity) == ("skips", severity)


def test_a_scale_that_falls_to_nothing_is_critical():
    found = {i.code: i for i in same_in_pieces(LossScaleCollapse(), **scaled(list(range(300, 700, 20))))}
    assert found["scale"].severity == "critical"
    assert found["halvings"].severity == "warning"


def test_without_a_scaler_there_is_nothing_to_judge():
    fared = run(LossScaleCollapse(), scalars=scalars(loss=[1.0] * 10), spans=Table.empty("spans"))
    assert (fared.reason, fared.covered) == ("no_input", 0)
