"""No rule of the catalogue warns of any of the healthy trainings."""

from __future__ import annotations

import inspect
import os
from typing import Any

import pytest
from tests.zoo.conftest import Zoo, wanted
from tests.zoo.train import SHELVES

from holter.rules import catalogue

TRAININGS = [
    name
    for shelf in SHELVES
    if "healthy" in shelf.__name__
    for name, made in vars(shelf).items()
    if inspect.isfunction(made) and made.__module__ == shelf.__name__ and not name.startswith("_")
]


def test_there_are_many() -> None:
    assert len(TRAININGS) >= 26


@pytest.fixture(scope="module")
def trained(zoo: Zoo, request: pytest.FixtureRequest) -> Zoo:
    """Train in one process what the tests that run want."""
    zoo.train(wanted(request, "name"))
    return zoo


def crowded(rule: str, issue: dict[str, Any]) -> bool:
    """Tell whether an issue is true of this very machine, because others keep all its cores busy."""
    if rule == "CPUContention":
        return bool(issue["evidence"]["cores_used"] > 0.9 * issue["evidence"]["cores"])
    return rule == "CPUOversubscription" and issue["evidence"]["cpu.load1"] > 2 * (os.cpu_count() or 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAININGS)
def test_no_rule_warns(trained: Zoo, name: str) -> None:
    found = trained.ask(name, list(catalogue()))
    alarms = [
        (rule["name"], issue["severity"], issue["summary"], issue["evidence"])
        for rule in found
        for issue in rule["issues"]
        if issue["severity"] != "info" and not crowded(rule["rule"], issue)
    ]
    assert not alarms
    # Silence counts only where something was judged.
    assert sum(rule["coverage"]["evaluated"] for rule in found) >= 15
