"""Declaring a rule: its decorator, its description and its lookback."""

from __future__ import annotations

import dataclasses
import sys
from types import ModuleType

import pytest

from holter.rules import Lookback, Rule, catalogue, parameter, rule_class


def test_a_decorated_class_is_a_frozen_dataclass_of_its_parameters():
    @rule_class
    class Example(Rule):
        lookback = Lookback(steps=7)

        limit: float = parameter(1.0, low=0)

    made = Example.of({"limit": "2"})
    assert made == Example(limit=2.0)
    assert made.values() == {"limit": 2.0}
    assert made.lookback == Lookback(steps=7)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.limit = 3.0


def test_the_docstring_of_the_module_describes_the_rule(monkeypatch):
    module = ModuleType("described", "Example: steps are slow.\n\nMore about it.")
    monkeypatch.setitem(sys.modules, "described", module)
    found = {}
    for name, own in (("Example", {}), ("Other", {}), ("Example", {"description": "its own"})):
        made = rule_class(type(name, (Rule,), {"__module__": "described", **own}))
        found[name, bool(own)] = made.description
    assert found == {("Example", False): "steps are slow", ("Other", False): "", ("Example", True): "its own"}


def test_every_rule_of_this_package_is_described_by_its_module():
    for rule in catalogue().values():
        if rule.__module__.startswith("holter.rules."):
            assert rule.description
            assert not rule.description.endswith(".")
