"""Jobs beside the one that is judged: baselines, and `holter.rules.run` from Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.evaluation.jobs import finished
from tests.generated.story import story

import holter
from holter.evaluation import evaluate
from holter.rules import LowGPUUtilization, Rule, Window, parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Compares(Rule):
    """Compares the mean loss with that of other jobs."""

    reads = ("scalars",)

    other_trials: tuple[str, ...] | None = parameter(None)
    """The other jobs."""

    def evaluate(self, window: Window) -> Any:
        found = {}
        for name in self.other_trials or ():
            tables = window.baseline(name)
            found[name] = None if tables is None else {t: rows.rows for t, rows in tables.items()}
        window.judged(1)
        window.details = {"others": found}
        yield from ()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store")
    rows = {}
    for name in ("before", "after"):
        tale = story(name, ranks=1, cores=1, steps=250)
        rows[name] = tale.scalars.rows
        finished(tale, path, [{"name": "LowGPUUtilization", "parameters": {}}])
    return path, rows


def others(rules):
    return rules[0]["details"]["others"]


def test_a_job_that_a_rule_names_is_found_in_the_store_or_by_its_url(store):
    path, rows = store
    names = ("before", str(path / "before"), "gone")
    result = holter.rules.run(str(path / "after"), [Compares(other_trials=names)])
    tables = {"scalars": rows["before"]}
    assert others(result["rules"]) == {
        "before": tables,
        str(path / "before"): tables,
        "gone": None,
    }


def test_a_baseline_is_for_rules_that_name_none(store):
    path, rows = store
    job, other = holter.open(str(path / "after")), holter.open(str(path / "before"))
    result = holter.rules.run(job, [Compares()], baselines=[other])
    assert others(result["rules"]) == {"before": {"scalars": rows["before"]}}
    named = holter.rules.run(job, [Compares(other_trials=("gone",))], baselines=[other])
    assert others(named["rules"]) == {"gone": None}


def test_run_judges_and_writes_nothing(store):
    path, _ = store
    job = holter.open(str(path / "before"))
    result = holter.rules.run(job, [LowGPUUtilization(threshold_p95=70), "StepOutlier"])
    assert result["job"] == "before"
    assert result["exit_code"] == 3
    statuses = {rule["name"]: rule["status"] for rule in result["rules"]}
    assert statuses == {"LowGPUUtilization": "IssuesFound", "StepOutlier": "NoIssuesFound"}
    assert job.folder.evaluations() == {}
    assert [rule["name"] for rule in holter.rules.run(job)["rules"]] == ["LowGPUUtilization"]  # the job's own
    assert "IssuesFound" in result._repr_html_()


def test_run_refuses_what_is_not(store):
    path, _ = store
    with pytest.raises(ValueError, match="did you mean StepOutlier"):
        holter.rules.run(str(path / "after"), ["StepOutlyer"])
    with pytest.raises(LookupError, match="nope"):
        holter.rules.run(str(path / "nope"))


def test_strict_coverage_is_an_error(store):
    path, _ = store
    result = holter.rules.run(str(path / "after"), ["HostMemoryLeak"], strict_coverage=True)
    (rule,) = result["rules"]
    assert rule["status"] == "Error"
    assert rule["status_details"].startswith("NotEvaluated: ")
    assert result["exit_code"] == 1


def test_issues_with_one_cause_are_grouped(store):
    path, _ = store
    judged = evaluate(holter.open(str(path / "before")).folder, ["pack:default"], record=False)
    groups = {
        rule["name"]: {issue["group_id"] for issue in rule["issues"]}
        for rule in judged.rules
        if rule["issues"]
    }
    assert groups["DataloaderBottleneck"] == groups["LowGPUUtilization"] != {None}
