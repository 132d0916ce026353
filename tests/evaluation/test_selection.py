"""Which rules run: what a user writes, what a manifest holds, packs."""

from __future__ import annotations

import json

import pytest

from holter.evaluation import choose, documents, packs
from holter.evaluation.selection import split
from holter.rules import BadRule, catalogue
from holter.rules.low_gpu_utilization import LowGPUUtilization


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
