"""Rules that compare ranks speak where one of two is slow, has more data and drifts, and not at its twin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import Jobs
from tests.zoo.conftest import HERE

LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
RULES = ("StragglerRank", "RankDataImbalance", "ReplicaDivergence", "ReplicasDiffer")
COMPARED = [rule.partition(":")[0] for rule in RULES]


def _rules_of(store: Path, *words: str) -> dict[str, dict[str, Any]]:
    options = ["--no-rules", "--save", "weights@5", "--interval", "100ms"]
    for rule in RULES:
        options += ["--rule", rule]
    done = Jobs(store).run(*LAUNCH, str(HERE / "two_ranks.py"), *words, options=tuple(options))
    assert done.code == 0, done.stderr
    return {rule["name"]: rule for rule in done.describe()["rules"]}


@pytest.mark.slow
def test_the_odd_rank_is_named(tmp_path: Path) -> None:
    told = _rules_of(tmp_path, "--sick")
    for name in COMPARED:
        assert told[name]["status"] == "IssuesFound", told[name]["status_details"]
    assert [issue["rank"] for issue in told["StragglerRank"]["issues"]] == [1]
    for name in ("ReplicaDivergence", "ReplicasDiffer"):
        assert "0.weight" in str(told[name]["issues"][0]["evidence"])


@pytest.mark.slow
def test_ranks_that_are_alike_are_left_alone(tmp_path: Path) -> None:
    told = _rules_of(tmp_path)
    for name in COMPARED:
        issues = [issue["summary"] for issue in told[name]["issues"] if issue["severity"] != "info"]
        assert not issues
        assert told[name]["coverage"]["evaluated"], told[name]["status_details"]
