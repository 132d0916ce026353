"""Tests of the rule ProfilerReport."""

from __future__ import annotations

import pytest
from tests.rules.tables import look, steps

from holter.evaluation.selection import choose
from holter.rules import BadRule
from holter.rules.system.batch_size import BatchSize
from holter.rules.system.profiler_report import ProfilerReport


def test_the_report_brings_its_rules_with_their_parameters():
    made = ProfilerReport.of({"cpubottleneck_THRESHOLD": "60", "LowGPUUtilization_threshold_p95": 80})
    brought = {type(rule).__name__: rule for rule in made.brings()}
    assert brought["CPUBottleneck"].threshold == 60
    assert brought["LowGPUUtilization"].threshold_p95 == 80
    assert brought["BatchSize"] == BatchSize()
    assert type(made)(**made.values()) == made
    runs = {
        run.name: run.rule
        for run in choose(["ProfilerReport:CPUBottleneck_threshold=60", "BatchSize:patience=5"])
    }
    assert runs["CPUBottleneck"].threshold == 60
    assert runs["BatchSize"].patience == 5
    classic = {type(rule).__name__: rule for rule in ProfilerReport.of(defaults="classic").brings()}
    assert classic["LowGPUUtilization"].patience == 1000
    issues, window = look(made, steps=steps([1.0] * 20))
    assert issues == []
    assert window.details["rules"]["CPUBottleneck"]["threshold"] == 60


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"CPUBottelneck_threshold": 1}, "did you mean CPUBottleneck"),
        ({"CPUBottleneck_treshold": 1}, "did you mean 'threshold'"),
        ({"CPUBottleneck_threshold": 101}, "from 0 to 100"),
        ({"parameters_of_rules": "[1"}, "not a JSON object"),
        ({"threshold": 1}, "no parameter 'threshold'"),
    ],
)
def test_a_parameter_that_no_rule_of_the_report_has_is_refused(given, says):
    with pytest.raises(BadRule, match=says):
        ProfilerReport.of(given)
