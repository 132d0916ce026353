"""What becomes of an issue: it is resolved when it is over, and grouped with what has the same cause."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest

from holter.evaluation import RuleRun
from holter.evaluation.groups import ORDER, group
from holter.evaluation.schedule import grid, spacing
from holter.rules import Job, Lookback, Rule, Window, catalogue, find, parameter

S = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class While(Rule):
    """Finds something at the looks that it is told."""

    reads = ("samples/gpu.util",)

    at: str = parameter("")
    """At which looks."""
    back: bool = parameter(True)
    """Whether it looks back."""

    @property
    def lookback(self) -> Lookback:
        return Lookback(seconds=40.0) if self.back else Lookback()

    def evaluate(self, window: Window) -> Any:
        looks = window.state["looks"] = window.state.get("looks", 0) + 1
        window.judged(1)
        if str(looks) in self.at.split(","):
            yield self.issue("so it is", time_start=window.start, time_end=window.end)


class Once(While):
    """The same, but silence says nothing."""

    tells_once = True


def after(rule: Rule, looks: int, run: RuleRun | None = None) -> RuleRun:
    run = run or RuleRun(type(rule).__name__, rule)
    begin = run.state.get("looks", 0)
    for i in range(begin + 1, begin + looks + 1):
        run.evaluate(
            Window.of(
                rule.lookback, job=Job(start=0), start=(i - 1) * 10 * S, end=i * 10 * S, state=run.state
            )
        )
    return run


def statuses(run: RuleRun) -> list[tuple[str, int | None]]:
    return [(i["status"], i["resolved"]) for i in run.shown()["issues"]]


def test_an_issue_is_resolved_after_three_windows_of_silence():
    rule = While(at="1,2,3")
    assert statuses(after(rule, 14)) == [("open", None)]
    run = after(rule, 15)  # 3 x 40 s after the third look
    assert statuses(run) == [("resolved", 150 * S)]
    assert run.status == "IssuesFound"  # it was found, and is listed
    assert statuses(after(rule, 30)) == [("resolved", 150 * S)]


def test_one_that_comes_back_is_open_again():
    run = after(While(at="1,30"), 30)
    assert statuses(run) == [("open", None)]
    assert run.shown()["issues"][0]["count"] == 2


def test_silence_of_a_rule_that_tells_once_says_nothing():
    assert statuses(after(Once(at="1"), 40)) == [("open", None)]
    assert statuses(after(While(at="1", back=False), 40)) == [("open", None)]


@pytest.mark.parametrize("cut", [2, 8, 14, 20])
def test_a_restart_does_not_forget_when(cut):
    rule = While(at="1,2,3,18")
    whole = after(rule, 32)
    kept = json.loads(json.dumps(after(rule, cut).kept()))
    again = RuleRun("While", rule)
    assert again.restore(kept)
    assert after(rule, 32 - cut, again).shown() == whole.shown()


def test_a_rule_may_stop_at_its_first_issue():
    run = RuleRun("While", While(at="2,3"), on_first_fire="stop")
    after(run.rule, 2, run)
    assert run.disabled
    assert run.status == "IssuesFound"


def test_strict_coverage_makes_a_rule_that_never_could_judge_an_error():
    class Blind(Rule):
        def evaluate(self, window):
            window.insufficient("no_input", "nothing to see")
            yield from ()

    for strict, status in ((False, "NoIssuesFound"), (True, "Error")):
        run = RuleRun("Blind", Blind(), strict_coverage=strict)
        run.evaluate(Window.of(job=Job(start=0, ended=True), end=S))
        run.phase = "Done"
        assert run.status == status
        assert run.status_details == "NotEvaluated: no_input: nothing to see"


def told(rule: str, begin: int, end: int, node: str | None = None) -> dict[str, Any]:
    issue = {"time_start": begin, "time_end": end, "node": node, "group_id": None, "caused_by": None}
    return {"rule": rule, "issues": [issue]}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_most_specific_issue_is_the_cause_of_those_that_overlap_it(order):
    rules = [
        told("LowGPUUtilization", 10, 50),
        told("DataloaderBottleneck", 0, 20),
        told("StepOutlier", 60, 70),
    ]
    rules = [rules[i] for i in order]
    group(rules)
    found = {rule["rule"]: (rule["issues"][0]["group_id"], rule["issues"][0]["caused_by"]) for rule in rules}
    assert found == {
        "LowGPUUtilization": ("DataloaderBottleneck-0", "DataloaderBottleneck"),
        "DataloaderBottleneck": ("DataloaderBottleneck-0", "DataloaderBottleneck"),
        "StepOutlier": (None, None),
    }


def test_issues_of_two_nodes_are_two_stories():
    rules = [told("CPUBottleneck", 0, 9, "a"), told("LowGPUUtilization", 0, 9, "b"), told("BatchSize", 0, 9)]
    group(rules)
    assert [rule["issues"][0]["caused_by"] for rule in rules] == ["CPUBottleneck", None, "CPUBottleneck"]


def test_rules_of_other_matters_stand_alone():
    rules = [
        told("DataloaderBottleneck", 0, 9),
        told("HostMemoryLeak", 0, 9),
        told("DataloaderBottleneck", 3, 9),
    ]
    group(rules)
    assert [rule["issues"][0]["group_id"] for rule in rules] == [None, None, None]
    assert "HostMemoryLeak" not in ORDER


def numbers(rule: str, step: int, severity: str = "critical") -> dict[str, Any]:
    issue = {"step_start": step, "severity": severity, "group_id": None, "caused_by": None}
    return {"rule": rule, "issues": [{**issue, "time_start": None, "time_end": None, "node": None}]}


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_what_is_found_once_numbers_are_not_finite_follows_from_it(order):
    rules = [
        numbers("LossSpike", 60),
        numbers("NonFiniteLoss", 60),
        numbers("NonFiniteGradient", 60),
        numbers("WeightUpdateRatio", 80, "warning"),
        numbers("VanishingGradient", 20, "warning"),
    ]
    rules = [rules[i] for i in order]
    group(rules)
    causes = {rule["rule"]: rule["issues"][0]["caused_by"] for rule in rules}
    assert causes.pop("VanishingGradient") is None  # it was there before
    assert set(causes.values()) == {"NonFiniteGradient"}
    assert {rule["issues"][0]["group_id"] for rule in rules} == {None, "NonFiniteGradient-60"}


def test_an_overflow_that_was_skipped_is_the_cause_of_nothing():
    rules = [numbers("NonFiniteGradient", 3, "info"), numbers("LossSpike", 60)]
    group(rules)
    assert [rule["issues"][0]["group_id"] for rule in rules] == [None, None]


def test_moments_do_not_depend_on_where_one_begins():
    start, until = 1_700_000_000 * S + 7, 1_700_000_200 * S
    whole = list(grid(start, start - 1, until))
    assert [m - start for m in whole[:3]] == [0, 2 * S, 4 * S]
    assert [m - start for m in whole[31:34]] == [70 * S, 80 * S, 90 * S]
    for cut in (0, 5, 30, 31, 40):
        assert list(grid(start, whole[cut], until)) == whole[cut + 1 :]


def test_an_old_job_is_looked_at_less_often():
    rule = find("LowGPUUtilization")()
    at = {hours: spacing(rule)(round(hours * 3600 * S)) / S for hours in (0.01, 0.1, 1, 24, 720)}
    assert at == {0.01: 0, 0.1: 10, 1: 36, 24: 120, 720: 120}
    assert spacing(find("StalledTraining")())(720 * 3600 * S) == 30 * S


@pytest.mark.parametrize("name", catalogue())
def test_nothing_falls_between_two_looks(name):
    rule = find(name)()
    if rule.lookback.seconds:
        assert spacing(rule)(720 * 3600 * S) <= max(rule.lookback.seconds, rule.every_s) * S


@pytest.mark.parametrize(
    ("code", "norm", "loss", "together"),
    [
        ("spike", 100, 118, True),
        ("spike", 100, 121, False),
        ("spike", 100, 99, False),
        ("followed", 5, 6, True),
        ("always_clipped", 100, 100, False),
    ],
)
def test_a_loss_that_jumps_soon_after_its_gradients(code, norm, loss, together):
    def issue(step, code):
        return {"step_start": step, "step_end": step, "code": code, "severity": "warning",
                "time_start": None, "time_end": None, "group_id": None, "caused_by": None}  # fmt: skip

    rules = [
        {"rule": "LossSpike", "issues": [issue(loss, "spike")]},
        {"rule": "GradientNormSpike", "issues": [issue(norm, code)]},
    ]
    group(rules)
    found = {(one["group_id"], one["caused_by"]) for rule in rules for one in rule["issues"]}
    assert found == {(f"GradientNormSpike-{norm}", "GradientNormSpike") if together else (None, None)}
