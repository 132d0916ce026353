"""Parameters and names of rules: any spelling is accepted, and errors are clear."""

from __future__ import annotations

import pytest

from holter.rules import BadRule, catalogue, find
from holter.rules.framework.step_outlier import StepOutlier
from holter.rules.system.cpu_bottleneck import CPUBottleneck
from holter.rules.system.low_gpu_utilization import LowGPUUtilization


@pytest.mark.parametrize(
    "name", ["LowGPUUtilization", "low_gpu_utilization", "LOWGPUUTILIZATION", "low-gpu-utilization"]
)
def test_any_spelling_of_a_name(name):
    assert find(name) is LowGPUUtilization


def test_other_names():
    assert find("stalled_training_rule").__name__ == "StalledTrainingRule"
    assert find("PlotVisualizations").__name__ == "CreateXgboostReport"


def test_every_name_of_the_catalogue_finds_its_rule():
    for name, rule in catalogue().items():
        assert find(name) is rule
        assert find(rule.__module__.rpartition(".")[2]) is rule


@pytest.mark.parametrize(
    ("name", "hint"),
    [("LowGPUUtilisation", "did you mean LowGPUUtilization?"), ("qqqqq", "holter rules list")],
)
def test_an_unknown_name_names_the_nearest(name, hint):
    with pytest.raises(BadRule, match=hint):
        find(name)


def test_strings_and_aliases():
    assert LowGPUUtilization.of({"threshold": "70", "window": " 500 "}) == LowGPUUtilization.of(
        {"threshold_p95": 70, "window": 500}
    )
    assert LowGPUUtilization(threshold_p95="70").threshold_p95 == 70.0
    assert LowGPUUtilization.of({"threshold_mean": "None"}).threshold_mean is None
    assert LowGPUUtilization.of({"skip_before_first_step": "NO"}).skip_before_first_step is False
    assert StepOutlier.of({"stddev": "1e1"}).stddev == 10.0


def test_two_forms_of_one_limit():
    assert LowGPUUtilization.of().window_s == 250
    assert LowGPUUtilization.of({"window": 500}).window_s is None
    classic = LowGPUUtilization.of(defaults="classic")
    assert (classic.window, classic.window_s) == (500, None)
    timed = LowGPUUtilization.of({"window_s": 100}, defaults="classic")
    assert (timed.window, timed.window_s) == (None, 100.0)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"treshold": 1}, "no parameter 'treshold'; did you mean 'threshold_p95'"),
        ({"threshold": "many"}, "threshold_p95='many' is not valid; it takes a number from 0 to 100"),
        ({"threshold": 101}, "from 0 to 100"),
        ({"threshold": "nan"}, "is not valid"),
        ({"threshold": True}, "is not valid"),
        ({"window": "1.5"}, "a whole number above 0 or None"),
        ({"window": 0}, "a whole number above 0 or None"),
        ({"skip_before_first_step": "maybe"}, "true or false"),
        ({"threshold": 1, "threshold_p95": 2}, "given twice"),
    ],
)
def test_errors_name_the_parameter_the_value_and_what_is_valid(given, says):
    with pytest.raises(BadRule, match="LowGPUUtilization") as caught:
        LowGPUUtilization.of(given)
    assert says in str(caught.value)


def test_choices_and_profiles():
    with pytest.raises(BadRule, match="any_core or mean or busiest_k"):
        CPUBottleneck(cpu_stat="some")
    with pytest.raises(BadRule, match="modern, classic"):
        CPUBottleneck.of(defaults="old")


def test_classic_values_are_those_of_the_service():
    assert LowGPUUtilization.of(defaults="classic").values() == {
        "threshold_p95": 70.0,
        "threshold_p5": 10.0,
        "threshold_mean": None,
        "window": 500,
        "window_s": None,
        "patience": 1000,
        "patience_s": None,
        "skip_before_first_step": False,
        "metric": "gpu.util",
        "sm_threshold_mean": 30.0,
    }
    cpu = CPUBottleneck.of(defaults="classic")
    assert (cpu.threshold, cpu.gpu_threshold, cpu.cpu_threshold, cpu.patience) == (50.0, 10.0, 90.0, 1000)
    io = find("IOBottleneck").of(defaults="classic").values()
    assert (io["threshold"], io["gpu_threshold"], io["io_threshold"], io["patience"]) == (
        50.0,
        10.0,
        50.0,
        1000,
    )
    outlier = StepOutlier.of(defaults="classic")
    assert (outlier.stddev, outlier.mode, outlier.n_outliers) == (3.0, None, 10)
    assert find("MaxInitializationTime").of(defaults="classic").values() == {"threshold": 20.0}
