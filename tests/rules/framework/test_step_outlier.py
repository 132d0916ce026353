"""Tests of the rule StepOutlier."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look, steps

from holter.rules.framework.step_outlier import StepOutlier
from holter.schema.table import Table


@pytest.mark.parametrize(("stddev", "limit"), [(3, 3.90), (5, 5.77)])
def test_p11_outliers(stddev, limit):
    rule = StepOutlier.of({"stddev": stddev}, defaults="classic")
    issues = found(rule, steps=steps([1.0] * 1000 + [10.0] * 11))
    assert issues[0].evidence["outliers"] == 11
    assert issues[0].evidence["limit_ms"] == pytest.approx(1000 * limit, abs=5)


def test_p12_many_outliers_hide_themselves_from_mean_and_deviation():
    table = steps([1.0] * 900 + [10.0] * 100)
    assert found(StepOutlier.of({"stddev": 3}, defaults="classic"), steps=table) == []
    assert found(StepOutlier.of({"stddev": 5}, defaults="classic"), steps=table) == []
    issues = found(StepOutlier(), steps=table)
    assert issues[0].evidence["outliers"] == 100
    assert issues[0].step_start == 900


def test_few_outliers_and_few_steps_are_tolerated():
    assert found(StepOutlier(), steps=steps([1.0] * 980 + [10.0] * 9)) == []
    issues, window = look(StepOutlier(), steps=steps([1.0] * 105))
    assert issues == []
    assert (window.lack.reason, window.lack.have) == ("too_few_points", 95)


def test_jitter_of_tiny_steps_is_a_note_at_most():
    assert [i.severity for i in found(StepOutlier(), steps=steps([0.002] * 800 + [0.006] * 200))] == ["info"]
    assert [i.severity for i in found(StepOutlier(), steps=steps([0.02] * 800 + [0.06] * 200))] == ["warning"]
    # A second lost in all, however it came about, is no reason to change a job.
    assert [i.severity for i in found(StepOutlier(), steps=steps([0.002] * 800 + [0.02] * 50))] == ["info"]


def test_noise_has_no_outliers():
    noise = np.exp(np.random.default_rng(3).normal(0, 0.05, 2000)) * 0.1
    assert found(StepOutlier(), steps=steps(noise)) == []


def test_checkpoints_explain_their_steps():
    normal, slow = steps([0.1] * 500), steps([1.0] * 30, first=500, start=START + 50 * SECOND, checkpoint=0.9)
    assert found(StepOutlier(), steps=Table.concat([normal, slow])) == []
    waiting = steps([1.0] * 30, first=500, start=START + 50 * SECOND, data_loading=0.9)
    issues = found(StepOutlier(), steps=Table.concat([normal, waiting]))
    assert "mostly data_loading" in issues[0].summary


def test_mode_restricts():
    table = steps([1.0] * 1000 + [10.0] * 40)
    assert found(StepOutlier(mode="train"), steps=table)
    issues, window = look(StepOutlier(mode="eval"), steps=table)
    assert issues == []
    assert window.lack.reason == "mode_missing"


def test_outliers_leave_the_statistics_of_their_process():
    _, window = look(StepOutlier.of(defaults="classic"), steps=steps([1.0] * 1000 + [10.0] * 11))
    (details,) = window.details["processes"].values()
    assert (details["number_of_outliers"], details["phase"], details["stddev"]) == (11, "train", 3.0)
    assert (details["p50"], details["max"]) == (1000.0, 10_000.0)
    assert details["step_numbers"] == list(range(1000, 1011))
    assert sum(details["histogram"]["counts"]) == 1000
