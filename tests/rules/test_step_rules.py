"""Rules that judge steps: outliers, start-up, data loading, and the summary of the framework."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look, steps

from holter.rules import Job, Window
from holter.rules.framework.dataloader_bottleneck import DataloaderBottleneck
from holter.rules.framework.max_initialization_time import MaxInitializationTime
from holter.rules.framework.overall_framework_metrics import OverallFrameworkMetrics
from holter.rules.framework.step_outlier import StepOutlier
from holter.schema.table import Table

MINUTE = 60 * SECOND


@pytest.mark.parametrize(("stddev", "limit"), [(3, 3.90), (5, 5.77)])
def test_p11_outliers(stddev, limit):
    rule = StepOutlier.of({"stddev": stddev}, defaults="classic")
    issues = found(rule, steps=steps([1.0] * 1000 + [10.0] * 11))
    assert issues[0].evidence["outliers"] == 11
    assert issues[0].evidence["limit_ms"] == pytest.approx(1000 * limit, abs=5)


def test_p12_many_outliers_hide_themselves_from_mean_and_deviation():
    table = steps([1.0] * 900 + [10.0] * 100)
    assert found(StepOutlier.of({"stddev": 3}, defaults="classic"), steps=table) == []
    assert found(StepOutlier.of({"stddev": 5}, defaults="classic"), steps=table) == []
    issues = found(StepOutlier(), steps=table)
    assert issues[0].evidence["outliers"] == 100
    assert issues[0].step_start == 900


def test_few_outliers_and_few_steps_are_tolerated():
    assert found(StepOutlier(), steps=steps([1.0] * 980 + [10.0] * 9)) == []
    issues, window = look(StepOutlier(), steps=steps([1.0] * 105))
    assert issues == []
    assert (window.lack.reason, window.lack.have) == ("too_few_points", 95)


def test_jitter_of_tiny_steps_is_a_note_at_most():
    assert [i.severity for i in found(StepOutlier(), steps=steps([0.002] * 800 + [0.006] * 200))] == ["info"]
    assert [i.severity for i in found(StepOutlier(), steps=steps([0.02] * 800 + [0.06] * 200))] == ["warning"]
    # A second lost in all, however it came about, is no reason to change a job.
    assert [i.severity for i in found(StepOutlier(), steps=steps([0.002] * 800 + [0.02] * 50))] == ["info"]


def test_noise_has_no_outliers():
    noise = np.exp(np.random.default_rng(3).normal(0, 0.05, 2000)) * 0.1
    assert found(StepOutlier(), steps=steps(noise)) == []


def test_checkpoints_explain_their_steps():
    normal, slow = steps([0.1] * 500), steps([1.0] * 30, first=500, start=START + 50 * SECOND, checkpoint=0.9)
    assert found(StepOutlier(), steps=Table.concat([normal, slow])) == []
    waiting = steps([1.0] * 30, first=500, start=START + 50 * SECOND, data_loading=0.9)
    issues = found(StepOutlier(), steps=Table.concat([normal, waiting]))
    assert "mostly data_loading" in issues[0].summary


def test_mode_restricts():
    table = steps([1.0] * 1000 + [10.0] * 40)
    assert found(StepOutlier(mode="train"), steps=table)
    issues, window = look(StepOutlier(mode="eval"), steps=table)
    assert issues == []
    assert window.lack.reason == "mode_missing"


@pytest.mark.parametrize(("minute", "fires"), [(21, True), (19, False)])
def test_p13_initialization(minute, fires):
    rule = MaxInitializationTime.of(defaults="classic")
    job = Job(start=START, first_step=START + minute * MINUTE)
    assert bool(found(rule, job=job, steps=steps([1.0], start=START + minute * MINUTE))) == fires


def test_initialization_speaks_before_the_first_step_when_one_is_expected():
    rule = MaxInitializationTime()
    late = look(rule, job=Job(start=START, trainers=True))[1]
    assert late.lack.reason == "patience_not_reached"
    window = type(late).of(job=Job(start=START, trainers=True), end=START + 31 * MINUTE)
    assert [i.severity for i in rule.evaluate(window)] == ["critical"]
    nobody = type(late).of(job=Job(start=START), end=START + 31 * MINUTE)
    assert list(rule.evaluate(nobody)) == []
    assert nobody.lack.reason == "no_input"


def test_p18_data_loading():
    table = steps([1.0] * 200, data_loading=0.6, forward=0.12, backward=0.2, optimizer=0.08)
    (issue,) = found(DataloaderBottleneck(), steps=table)
    assert issue.severity == "critical"
    assert issue.evidence["share_pct"] == pytest.approx(60)
    assert issue.evidence["compute_ratio"] == pytest.approx(1.5)
    (mild,) = found(DataloaderBottleneck(), steps=steps([1.0] * 200, data_loading=0.18, forward=0.8))
    assert mild.severity == "info"
    assert found(DataloaderBottleneck(), steps=steps([1.0] * 200, data_loading=0.09, forward=0.9)) == []


def test_the_threshold_of_old_configurations_is_the_lowest_level():
    rule = DataloaderBottleneck.of({"threshold": "30"})
    assert found(rule, steps=steps([1.0] * 200, data_loading=0.30, forward=0.7)) == []
    (issue,) = found(rule, steps=steps([1.0] * 200, data_loading=0.31, forward=0.69))
    assert issue.severity == "warning"


def test_classic_compares_with_compute():
    rule = DataloaderBottleneck.of(defaults="classic")
    assert found(rule, steps=steps([1.0] * 200, data_loading=0.5, forward=0.3, backward=0.2)) == []
    assert found(rule, steps=steps([1.0] * 200, data_loading=0.51, forward=0.3, backward=0.19))


def test_one_rank_that_waits_for_data_is_named():
    ranks = [steps([1.0] * 100, rank=r, forward=0.95, data_loading=0.02) for r in range(7)]
    ranks.append(steps([1.0] * 100, rank=7, forward=0.5, data_loading=0.45))
    (issue,) = found(DataloaderBottleneck(), steps=Table.concat(ranks))
    assert (issue.rank, issue.severity) == (7, "critical")


def test_evaluation_and_compilation_do_not_count():
    loading = steps([1.0] * 100, data_loading=0.05, forward=0.9)
    busy = steps([30.0] * 5, first=100, start=START + 100 * SECOND, data_loading=0.9, eval=0.05)
    assert found(DataloaderBottleneck(), steps=Table.concat([loading, busy])) == []


def test_a_wait_nobody_feels_is_a_note_at_most():
    (issue,) = found(DataloaderBottleneck(), steps=steps([0.001] * 200, data_loading=0.5, forward=0.5))
    assert issue.severity == "info"


def test_too_few_steps_are_not_judged():
    issues, window = look(DataloaderBottleneck(), steps=steps([1.0] * 40, data_loading=0.9))
    assert issues == []
    assert (window.lack.reason, window.lack.have, window.lack.need) == ("too_few_points", 30, 50)


def test_framework_metrics_never_fire_and_add_up():
    table = steps([0.5] * 100, data_loading=0.4, forward=0.3, backward=0.3)
    issues, window = look(OverallFrameworkMetrics(), steps=table)
    assert issues == []
    assert window.details["phase_pct"] == {"train": 100.0, "others": 0.0}
    assert window.details["part_pct"]["data_loading"] == pytest.approx(40)
    assert window.details["forward_pct_of_passes"] == pytest.approx(50)


def test_framework_metrics_under_the_names_of_old_reports():
    table = steps([0.5] * 100, data_loading=0.5, forward=0.2, backward=0.3)
    operators = [("aten::mm", 98), ("aten::add", 1), ("aten::relu", 1)]
    rows = [{"time": START, "duration": us * 1000, "name": n, "kind": "operator"} for n, us in operators]
    kernels = [{"time": START, "duration": 300_000, "device": 1, "name": "gemm", "kind": "compute"}]
    _, window = look(
        OverallFrameworkMetrics(),
        steps=table,
        operators=Table.of("operators", rows),
        kernels=Table.of("kernels", kernels),
    )
    details = window.details
    assert details["phase"] == {"Step:ModeKeys.TRAIN": 100.0, "others": 0.0}
    assert details["phase_time"]["Step:ModeKeys.TRAIN"] == 50_000_000
    assert details["general"]["data_loading"] == pytest.approx(50)
    assert details["forward_backward"] == pytest.approx({"forward": 40, "backward": 60})
    assert details["ratio"] == pytest.approx({"cpu_functions": 25, "gpu_functions-dev:1": 75})
    assert (details["CPU"], details["CPU_total"]) == ({"aten::mm": 100.0}, {"aten::mm": 98})
    assert (details["GPU"], details["GPU_total"]) == ({"gemm": 100.0}, {"gemm": 300})


def test_outliers_leave_the_statistics_of_their_process():
    _, window = look(StepOutlier.of(defaults="classic"), steps=steps([1.0] * 1000 + [10.0] * 11))
    (details,) = window.details["processes"].values()
    assert (details["number_of_outliers"], details["phase"], details["stddev"]) == (11, "train", 3.0)
    assert (details["p50"], details["max"]) == (1000.0, 10_000.0)
    assert details["step_numbers"] == list(range(1000, 1011))
    assert sum(details["histogram"]["counts"]) == 1000


def test_initialization_is_split_and_any_number_is_a_sign_of_life():
    rule, minute = MaxInitializationTime(), MINUTE
    events = Table.of(
        "events",
        [
            {"time": START + minute, "kind": "process", "detail": '{"role": "trainer"}'},
            {"time": START + 3 * minute, "kind": "framework"},
        ],
    )
    job = Job(start=START, first_step=START + 12 * minute, trainers=True)
    late = steps([30.0], start=START + 12 * minute, data_loading=0.5)
    issues, window = look(rule, job=job, steps=late, events=events)
    parts = {"launch": 60, "import": 120, "preparation": 540, "first_batch": 15}
    assert issues[0].evidence["parts_s"] == pytest.approx(parts)
    assert "from the framework's import to the first step" in issues[0].summary
    assert window.details["step_num"]["first"] == (START + 12 * minute) // 1000
    logged = Table.of("scalars", [{"time": START + 2 * minute, "name": "loss", "value": 1.0}])
    window = Window.of(job=Job(start=START, trainers=True), end=START + 40 * minute, scalars=logged)
    assert list(rule.evaluate(window)) == []
    assert window.points


def test_a_wait_of_less_than_a_second_in_all_is_a_note_at_most():
    short = steps([0.004] * 200, data_loading=0.5, forward=0.5)
    (issue,) = found(DataloaderBottleneck(), steps=short)
    assert issue.severity == "info"
    (issue,) = found(DataloaderBottleneck(), steps=steps([0.02] * 200, data_loading=0.5, forward=0.5))
    assert issue.severity == "critical"


def test_time_between_steps_is_other():
    gap = Table.concat([steps([1.0] * 10), steps([1.0] * 10, first=10, start=START + 30 * SECOND)])
    _, window = look(OverallFrameworkMetrics(), steps=gap)
    assert window.details["phase_pct"]["others"] == pytest.approx(50)
