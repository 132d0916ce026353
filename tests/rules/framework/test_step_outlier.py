"""Tests of the rule StepOutlier."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look, severities, steps

from holter.rules import Job
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
    assert found(StepOutlier(), steps=steps([1.0] * 980 + [1.5] * 9)) == []
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


def stalled(seconds=15.0, *, count=250, at=151, job=None, **parts):
    table = steps([0.012] * at, forward=1.0)
    slow = steps([seconds], first=at, start=int(table["time"][-1]) + SECOND // 50, **parts)
    after = int(slow["time"][0] + slow["duration"][0])
    rest = steps([0.012] * (count - at - 1), first=at + 1, start=after, forward=1.0)
    return look(StepOutlier(), job=job, steps=Table.concat([table, slow, rest]))[0]


def test_one_step_that_takes_most_of_the_time_is_a_stall():
    (issue,) = stalled()
    assert (issue.code, issue.severity, issue.step_start, issue.step_end) == ("stall", "warning", 151, 151)
    assert issue.summary == (
        "step 151 took 15 s; the typical step takes 12 ms; the loop's own code took 15 s longer"
    )
    assert issue.evidence["loop_pct"] > 80
    # It is found in a short job, too, and once a hundred steps have passed it is no outlier besides.
    assert [one.code for one in stalled(count=60, at=30)] == ["stall"]


def test_stack_samples_name_the_function_of_a_stall_while_they_are_known():
    table = Table.concat([steps([0.012] * 200), steps([15.0], first=200, start=START + 3 * SECOND)])
    at = {"rank": 0, "node": "n0", "step": 200, "phase": "loop_stack", "worker": -1}
    name = "<module> (train.py:9);stall (train.py:3) > time.sleep"
    spans = [{**at, "time": START + i * SECOND, "duration": SECOND, "name": name} for i in range(4, 16)]
    state = {}
    (issue,), _ = look(StepOutlier(), state=state, steps=table, spans=Table.of("spans", spans))
    assert issue.summary.endswith("longer: time.sleep, called by stall (train.py:3)")
    (issue,), _ = look(StepOutlier(), state=state, steps=table)
    assert issue.evidence["function"] == "time.sleep, called by stall (train.py:3)"


def test_a_short_stall_of_a_long_job_is_a_note_and_explained_steps_are_silent():
    long = Job(start=START, first_step=START - 3600 * SECOND, warm={0: START})
    assert severities(stalled(job=long)) == ["info"]
    assert stalled(0.5) == []
    assert stalled(checkpoint=0.99) == stalled(eval=0.99) == []
    (issue,) = stalled(3.0)  # half of the time
    assert issue.evidence["lost_s"] == pytest.approx(3, abs=0.02)


def test_jitter_of_short_steps_does_not_hide_a_stall():
    short = np.full(80, 0.0003)
    short[10::3] = 0.002
    table = steps(np.concatenate([short[:60], [4.0], short[60:]]))
    (issue,) = look(StepOutlier(), steps=table)[0]
    assert (issue.code, issue.step_start, issue.step_end) == ("stall", 60, 60)


def trained(*models):
    rows = [
        {"time": START, "rank": 0, "kind": "model", "detail": json.dumps({"step": step, "model": model})}
        for step, model in models
    ]
    return Table.of("events", rows)


def test_another_model_has_another_usual_step():
    table = steps([0.01] * 800 + [1.0] * 200)
    assert len(found(StepOutlier(), steps=table)) == 1
    assert found(StepOutlier(), steps=table, events=trained((0, "A"), (800, "B"))) == []
    assert len(found(StepOutlier(), steps=table, events=trained((0, "A"), (800, "A")))) == 1


def test_the_first_steps_of_another_model_are_no_stall():
    table = steps([0.01] * 800 + [1.0] * 8)
    (issue,) = look(StepOutlier(), steps=table)[0]
    assert issue.code == "stall"
    assert look(StepOutlier(), steps=table, events=trained((0, "A"), (800, "B")))[0] == []
