"""One rule's fault is its own: its status says so, the others go on."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any

from tests.evaluation.jobs import finished
from tests.generated.story import story

from holter.evaluation import RuleRun, choose, evaluate
from holter.rules import Issue, Job, Rule, Window, parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(Rule):
    """Fails at every look after some."""

    reads = ("steps",)

    good: int = parameter(0, low=0)
    """Looks that succeed first."""
    then: int = parameter(10**6, low=0)
    """Looks that fail then."""

    def evaluate(self, window: Window) -> Any:
        """Count, then fail."""
        looks = window.state["looks"] = window.state.get("looks", 0) + 1
        window.judged(1)
        if self.good < looks <= self.good + self.then:
            raise ZeroDivisionError(f"at look {looks}")
        yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeating(Rule):
    """Finds something at chosen looks."""

    reads = ("steps",)
    severity = "warning"

    at: str = parameter("1")
    """At which looks."""

    def evaluate(self, window: Window) -> Any:
        """Find."""
        looks = window.state["looks"] = window.state.get("looks", 0) + 1
        window.judged(1)
        for rank in range(self.at.split(",").count(str(looks))):
            worse = "critical" if looks == 2 else "warning"
            yield self.issue(f"look {looks}", severity=worse, rank=rank, step_start=looks, step_end=looks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient(Repeating):
    """The same, believed only at the second look in a row."""

    consecutive = 2


def looks(rule: Rule, count: int, *, ended: bool = False) -> RuleRun:
    run = RuleRun(type(rule).__name__, rule)
    for i in range(1, count + 1):
        job = Job(start=0, ended=ended and i == count)
        run.evaluate(Window.of(job=job, end=i * 10**9, state=run.state))
    return run


def test_an_exception_is_an_error_with_its_traceback_and_the_others_go_on(tmp_path):
    folder = finished(story("after", ranks=1, cores=1, steps=60, samples=200), tmp_path)
    result = evaluate(folder, [Broken(), "StepOutlier", "OverallSystemUsage"])
    rules = {rule["name"]: rule for rule in result.rules}
    assert rules["Broken"]["status"] == "Error"
    assert "ZeroDivisionError: at look 3" in rules["Broken"]["error"]
    assert "test_isolation.py" in rules["Broken"]["error"]
    assert rules["Broken"]["status_details"] == "Error: ZeroDivisionError: at look 3"
    assert rules["Broken"]["evaluations"] == 3  # three in a row, and it is asked no more
    assert rules["StepOutlier"]["status"] == rules["OverallSystemUsage"]["status"] == "NoIssuesFound"
    assert result.exit_code == 1


def test_a_rule_that_recovers_goes_on():
    run = looks(Broken(good=1, then=2), 6)
    assert (run.status, run.faults, run.evaluations, run.disabled) == ("InProgress", 2, 6, False)


def test_what_is_no_issue_is_a_fault_of_the_rule():
    class Wrong(Rule):
        def evaluate(self, window):
            yield "an issue"

    run = looks(Wrong(), 1)
    assert run.status == "Error"
    assert "'an issue', which is not an Issue" in run.error


def test_repeats_are_one_issue():
    run = looks(Repeating(at="1,2,4"), 5)
    (issue,) = run.issues.values()
    assert (issue.count, issue.step_start, issue.step_end) == (3, 1, 4)
    assert (issue.severity, issue.summary) == ("critical", "look 2")  # the worst is what is told
    assert (run.triggered, run.evaluations) == (3, 5)
    assert len(looks(Repeating(at="1,1,1"), 1).issues) == 3


def test_no_flood():
    run = looks(Repeating(at=",".join(["1"] * 250)), 1)
    assert (len(run.issues), run.findings.more) == (100, 150)


def test_two_in_a_row_are_needed():
    assert not looks(Patient(at="1,3,5"), 5).issues
    assert [i.count for i in looks(Patient(at="2,3,4"), 5).issues.values()] == [2]


def test_a_job_with_one_look_is_judged_by_it():
    assert looks(Patient(at="1"), 1, ended=True).issues
    assert not looks(Patient(at="3"), 3, ended=True).issues


def test_a_run_is_the_same_after_a_restart():
    run = looks(Patient(at="2,3,4"), 3)
    other = RuleRun("Patient", Patient(at="2,3,4"))
    assert other.restore(json.loads(json.dumps(run.kept())))
    for one in (run, other):
        one.evaluate(Window.of(job=Job(start=0), end=4 * 10**9, state=one.state))
    assert one.shown() == run.shown()
    assert one.shown()["issues"][0]["count"] == 2
    assert not RuleRun("Patient", Patient(at="1")).restore(run.kept())


def test_a_rule_that_never_could_judge_says_what_was_missing():
    (run,) = choose(["LowGPUUtilization"])
    run.evaluate(Window.of(run.rule.lookback, job=Job(start=0, ended=True)))
    run.phase = "Done"
    shown = run.shown()
    assert shown["status"] == "NoIssuesFound"
    assert shown["status_details"] == "NotEvaluated: no_input: no reading of gpu.util"
    assert shown["coverage"]["evaluated"] is False


def test_numbers_that_json_does_not_know_are_absent():
    class Endless(Rule):
        def evaluate(self, window):
            window.details = {"ratios": [1.0, math.nan]}
            yield self.issue("x", evidence={"ratio": math.inf, "of": {"n": 1}})

    shown = looks(Endless(), 1).shown()
    assert shown["issues"][0]["evidence"] == {"ratio": None, "of": {"n": 1}}
    assert shown["details"] == {"ratios": [1.0, None]}


def test_issues_are_shown_with_everything():
    (shown,) = looks(Repeating(), 1).shown()["issues"]
    ours = {"status", "last_found", "resolved", "group_id", "caused_by"}
    assert set(shown) == {f.name for f in dataclasses.fields(Issue)} | ours
