"""Which rules run: what a user writes, what a manifest holds, packs."""

from __future__ import annotations

import json

import pytest

from holter.evaluation import choose, documents, packs
from holter.evaluation.selection import split
from holter.rules import BadRule, catalogue, rule_configs, snake
from holter.rules.framework.step_outlier import StepOutlier
from holter.rules.system.low_gpu_utilization import LowGPUUtilization


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("StepOutlier", ("StepOutlier", {})),
        ("StepOutlier:", ("StepOutlier", {})),
        ("a:k=1, l = x=y ", ("a", {"k": "1", "l": "x=y"})),
        ("a:k=[1,2],l=(3,4)", ("a", {"k": "[1,2]", "l": "(3,4)"})),
    ],
)
def test_split(text, parts):
    assert split(text) == parts


@pytest.mark.parametrize("text", ["StepOutlier:5", "StepOutlier:=5", "StepOutlier:stddev=1,stddev=2"])
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(BadRule, match="StepOutlier"):
        choose([text])


def test_a_later_choice_replaces_an_earlier_one():
    runs = {run.name: run.rule for run in choose(["pack:default", "low_gpu_utilization:threshold=70"])}
    assert runs["LowGPUUtilization"] == LowGPUUtilization(threshold_p95=70)
    assert len(runs) == len(packs()["default"])


def test_the_default_pack_is_what_a_run_starts_with():
    assert packs()["default"] == [name for name, rule in catalogue().items() if "default" in rule.packs]
    assert {"LowGPUUtilization", "DataloaderBottleneck", "StalledTraining", "NonFiniteLoss"} <= set(
        packs()["default"]
    )
    assert set(packs()["essentials"]) <= set(packs()["default"])


def test_unknown_packs_and_profiles():
    with pytest.raises(BadRule, match="did you mean 'essentials'"):
        choose(["pack:esentials"])
    with pytest.raises(BadRule, match="modern, classic"):
        choose(["StepOutlier:defaults=old"])


@pytest.mark.parametrize("defaults", ["modern", "classic"])
def test_a_manifest_brings_back_the_same_rules(defaults):
    runs = choose(
        [*catalogue(), {"name": "mine", "rule": "StepOutlier", "parameters": {"stddev": "4"}}],
        defaults=defaults,
    )
    again = choose(json.loads(json.dumps(documents(runs))))
    assert [(run.name, run.rule, run.defaults) for run in again] == [
        (r.name, r.rule, r.defaults) for r in runs
    ]


def test_a_mapping_may_hold_some_parameters_only():
    (run,) = choose([{"name": "LowGPUUtilization", "parameters": {"window": "500"}}])
    assert run.rule == LowGPUUtilization(window=500, window_s=None)


def test_a_rule_chosen_twice_runs_twice():
    runs = choose(
        ["StepOutlier:stddev=4", "step_outlier:stddev=5", "StepOutlier:stddev=4", StepOutlier(stddev=6)]
    )
    assert [(run.name, run.rule.stddev) for run in runs] == [
        ("StepOutlier", 4.0),
        ("StepOutlier-2", 5.0),
        ("StepOutlier-3", 6.0),
    ]
    again = choose(json.loads(json.dumps(documents(runs))))
    assert [(run.name, run.rule) for run in again] == [(run.name, run.rule) for run in runs]


@pytest.mark.parametrize(
    "order", [("pack:default", "StepOutlier:stddev=4"), ("StepOutlier:stddev=4", "pack:default")]
)
def test_a_pack_gives_way_to_what_is_chosen_by_name(order):
    runs = {run.name: run.rule for run in choose([*order, "pack:performance"])}
    assert runs["StepOutlier"] == StepOutlier(stddev=4)
    assert "StepOutlier-2" not in runs
    assert set(packs()["performance"]) <= set(runs)


def test_options_of_a_rule_survive_in_a_manifest():
    (run,) = choose(["StepOutlier:stddev=4,on_first_fire=stop,strict_coverage=yes"])
    assert (run.rule.stddev, run.on_first_fire, run.strict_coverage) == (4.0, "stop", True)
    (again,) = choose(json.loads(json.dumps(documents([run]))))
    assert (again.rule, again.on_first_fire, again.strict_coverage) == (run.rule, "stop", True)


@pytest.mark.parametrize("option", ["on_first_fire=once", "strict_coverage=perhaps"])
def test_an_option_that_is_not_valid_is_refused(option):
    with pytest.raises(BadRule, match=option.partition("=")[2]):
        choose([f"StepOutlier:{option}"])


@pytest.mark.parametrize("name", ["low_gpu_utilization", "LowGPUUtilization", "lowgpuutilization"])
def test_a_config_is_the_rule(name):
    make = getattr(rule_configs, name)
    assert make(threshold="70") == LowGPUUtilization(threshold_p95=70)
    assert make(defaults="classic") == LowGPUUtilization.of(defaults="classic")


def test_every_rule_has_its_config_in_both_spellings():
    for name, rule in catalogue().items():
        assert getattr(rule_configs, name)() == getattr(rule_configs, snake(name))() == rule()
        assert {name, snake(name)} <= set(dir(rule_configs))
    with pytest.raises(AttributeError, match="did you mean StepOutlier"):
        rule_configs.StepOutlyer  # noqa: B018
    with pytest.raises(BadRule, match="threshold_p95"):
        rule_configs.low_gpu_utilization(treshold=1)
