"""No rule of the catalogue warns of any of twenty healthy trainings."""

from __future__ import annotations

import inspect

import pytest
from tests.zoo import healthy, healthy_special
from tests.zoo.conftest import Zoo

from holter.rules import catalogue

TRAININGS = [
    name
    for shelf in (healthy, healthy_special)
    for name, made in vars(shelf).items()
    if inspect.isfunction(made) and made.__module__ == shelf.__name__
]


def test_there_are_twenty() -> None:
    assert len(TRAININGS) >= 20


@pytest.fixture(scope="module")
def trained(zoo: Zoo) -> Zoo:
    zoo.train(TRAININGS)
    return zoo


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAININGS)
def test_no_rule_warns(trained: Zoo, name: str) -> None:
    found = trained.ask(name, list(catalogue()))
    alarms = [
        (rule["name"], issue["severity"], issue["summary"], issue["evidence"])
        for rule in found
        for issue in rule["issues"]
        if issue["severity"] != "info"
    ]
    assert not alarms
    # Silence counts only where something was judged.
    assert sum(rule["coverage"]["evaluated"] for rule in found) >= 15
