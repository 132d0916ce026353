"""The link of a finding leads to its worst steps, not to all of the time in which it held."""

from __future__ import annotations

import re

import pytest

from holter.pages.text.insights import rules

SECOND = 10**9
OUTLIERS = [{"step": 40}, {"step": 7}, {"step": 25}]


def shown(**issue):
    found = {"summary": "slow", "severity": "warning", "advice": None, "evidence": {}, **issue}
    found |= {"time_start": 10 * SECOND, "time_end": 60 * SECOND}
    told = {
        "job": {"start": 0, "duration_s": 60.0},
        "steps": {"outliers": OUTLIERS},
        "rules": [{"name": "StepOutlier", "status": "IssuesFound", "parameters": {}, "evaluations": 1,
                   "triggered": 1, "issues": [found]}],
    }  # fmt: skip
    html = rules(
        told, lambda moment: f"/at?{moment[0]:g}-{moment[1]:g}", ran=lambda first, last: (first, last)
    )
    return re.findall(r'href="(/at[^"]+)">show the worst moment', html)


@pytest.mark.parametrize(
    ("issue", "moment"),
    [
        ({"evidence": {"steps_slowest_first": [12, 9]}, "step_start": 9, "step_end": 50}, "/at?9-15"),
        ({"step_start": 5, "step_end": 30}, "/at?4-10"),
        ({"step_start": 50, "step_end": 55}, "/at?47-53"),
        ({}, "/at?5-65"),
    ],
)
def test_the_worst_step_is_shown_with_three_around_it(issue, moment):
    assert shown(**issue) == [moment]
