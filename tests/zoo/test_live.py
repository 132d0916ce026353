"""The rules run beside the training, as `holter run` starts them, and what they find is its exit code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.jobs.starting import Jobs
from tests.zoo.conftest import HERE, surroundings

ISSUES_FOUND = 3
WATCHED = {
    "slow_input": (["DataloaderBottleneck"], []),
    "hangs": (["StalledTraining:min_s=3,max_s=3", "NoCheckpoint:after_h=0.0008"], []),
    "jumps": (["LossSpike", "NonFiniteLoss", "GradientNormSpike"], []),
    "nan_in_one_module": (["NonFiniteGradient"], []),
    "deep_sigmoid": (["VanishingGradient"], ["gradients@10"]),
    "dead": (["DeadRelu", "DeadNeurons", "AllZero"], ["gradients@10", "activations@10:active"]),
}
"""Training → rules that fire, and what is saved for them."""
ALL_RULES = [rule for rules, _ in WATCHED.values() for rule in rules]
ALL_SAVED = sorted({one for _, saved in WATCHED.values() for one in saved})


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return Jobs(tmp_path / "store")


def _run(jobs: Jobs, name: str, rules: list[str], saved: list[str]):
    options = ["--no-rules", "--fail-on", "issue", "--interval", "100ms", "--hang-after", "3"]
    for rule in rules:
        options += ["--rule", rule]
    for one in saved:
        options += ["--save", one]
    command = [sys.executable, str(HERE / "train.py"), name]
    return jobs.run(*command, options=tuple(options), env={"PYTHONPATH": surroundings()["PYTHONPATH"]})


@pytest.mark.slow
@pytest.mark.parametrize("name", WATCHED)
def test_rules_beside_a_sick_training(jobs: Jobs, name: str) -> None:
    rules, saved = WATCHED[name]
    done = _run(jobs, name, rules, saved)
    assert done.code == ISSUES_FOUND, done.stderr
    told = {rule["name"]: rule["status"] for rule in done.describe()["rules"]}
    assert told == {rule.partition(":")[0]: "IssuesFound" for rule in rules}


@pytest.mark.slow
def test_rules_beside_a_healthy_training(jobs: Jobs) -> None:
    rules = [r for r in ALL_RULES if not r.startswith("NoCheckpoint")]
    done = _run(jobs, "convolutions", rules, ALL_SAVED)
    assert done.code in (0, ISSUES_FOUND), done.stderr
    issues = [i for rule in done.describe()["rules"] for i in rule["issues"] if i["severity"] != "info"]
    assert not issues
