"""The order in which issues are read: worst first, symptoms with their cause, what is over last."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from holter.views.issues import not_judged, ordered, weighed


def rule(name: str, *severities: str, status: str = "open", **more: Any) -> dict[str, Any]:
    given = {"status": status, "group_id": None, "caused_by": None, **more}
    issues = [{"summary": name, "severity": severity, **given} for severity in severities]
    return {"name": name, "rule": name, "status": "IssuesFound", "issues": issues}


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_worst_leads_and_what_is_over_follows_its_equals(order):
    rules = [
        rule("A", "info"),
        rule("B", "warning", status="resolved"),
        rule("C", "warning"),
        rule("D", "critical", status="resolved"),
    ]
    found = ordered([rules[i] for i in order])
    assert [one.rule for one in found] == ["D", "C", "B", "A"]
    assert [one.over for one in found] == [True, False, True, False]


def test_symptoms_stand_with_their_cause_which_is_as_bad_as_they_are():
    group = {"group_id": "Loader-0", "caused_by": "Loader"}
    rules = [
        rule("LowGPU", "info", "critical", **group),
        rule("Other", "warning"),
        rule("Loader", "info", **group),
    ]
    first, second = ordered(rules)
    assert (first.rule, first.severity, second.rule) == ("Loader", "critical", "Other")
    assert [(one.rule, one.severity) for one in first.symptoms] == [
        ("LowGPU", "critical"),
        ("LowGPU", "info"),
    ]


def test_a_symptom_whose_cause_is_not_among_the_rules_stands_for_itself():
    (found,) = ordered([rule("LowGPU", "warning", group_id="Loader-0", caused_by="Loader")])
    assert (found.rule, found.symptoms) == ("LowGPU", [])


def test_a_rule_that_could_not_look_is_not_a_rule_that_found_nothing():
    blind = {"name": "Blind", "status": "NoIssuesFound", "coverage": {"evaluated": False}}
    calm = {"name": "Calm", "status": "NoIssuesFound", "coverage": {"evaluated": True}}
    old = {"name": "Old", "status": "NoIssuesFound"}
    assert not_judged([blind, calm, old, {**blind, "status": "InProgress"}]) == ["Blind"]


def test_an_issue_that_the_verdict_rules_out_for_the_whole_job_is_a_note():
    loading = "data loading takes 14 % of each step"
    verdict = {"ruled_out": [{"suspect": "checkpointing", "because": "checkpoints take 1 %"}],
               "smaller": [{"suspect": "data_pipeline", "share_pct": 14.0, "text": loading}]}  # fmt: skip
    rules = [rule("DataloaderBottleneck", "warning", "info"), rule("CommNotOverlapped", "warning")]
    slow, other = weighed(rules, verdict)
    assert [one["severity"] for one in slow["issues"]] == ["info", "info"]
    assert slow["issues"][0]["summary"] == f"DataloaderBottleneck; over the whole job, {loading}"
    assert slow["issues"][1]["summary"] == slow["issues"][0]["summary"], "notes name the difference, too"
    assert other == rules[1], "the verdict does not rule communication out"
    assert rules[0]["issues"][0]["severity"] == "warning", "the evaluations stay as they are"


def test_the_wait_of_the_last_minute_is_told_beside_that_of_the_whole_job():
    waits = "the training waits for a core 6 % of the time"
    verdict = {"ruled_out": [{"suspect": "contention", "because": waits}]}
    judged = rule("CPUOversubscription", "info", "warning")
    for issue, code in zip(judged["issues"], ("delay", "throttled"), strict=True):
        issue["code"] = code
    (found,) = weighed([judged], verdict)
    wait, quota = found["issues"]
    assert wait["summary"] == f"CPUOversubscription; over the whole job, {waits}"
    assert quota == judged["issues"][1], "a quota is not the wait"


def test_of_equal_issues_failures_come_first_and_lost_time_last():
    found = ordered(
        [
            {**rule("Crowded", "warning"), "category": "system"},
            {**rule("Slow", "warning"), "category": "framework"},
            {**rule("NotANumber", "warning"), "category": "training"},
            {**rule("Mine", "warning"), "category": "own"},
            {**rule("Hangs", "warning"), "category": "reliability"},
            {**rule("Full", "critical"), "category": "system"},
        ]
    )
    assert [one.rule for one in found] == ["Full", "Hangs", "NotANumber", "Mine", "Crowded", "Slow"]
