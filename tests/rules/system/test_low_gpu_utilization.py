"""LowGPUUtilization: the published vectors, patience, and what is left out."""

from __future__ import annotations

import pytest
from tests.rules.tables import SECOND, START, found, look, samples, steps

from holter.rules import Job
from holter.rules.system.low_gpu_utilization import LowGPUUtilization

CLASSIC = LowGPUUtilization.of(defaults="classic")


def gpu(values, **kwargs):
    return samples({("gpu.util", "gpu0"): values}, **kwargs)


def test_p1_low_only_once_patience_is_exceeded():
    assert [i.code for i in found(CLASSIC, samples=gpu([50] * 1001))] == ["low"]
    issues, window = look(CLASSIC, samples=gpu([50] * 1000))
    assert issues == []
    assert window.points == 0
    assert (window.lack.reason, window.lack.have, window.lack.need) == ("patience_not_reached", 1000, 1000)


def test_p2_busy_gpu_is_fine():
    assert found(CLASSIC, samples=gpu([80] * 1001)) == []


@pytest.mark.parametrize(("zeros", "codes"), [(30, ["fluctuating"]), (24, []), (26, ["fluctuating"])])
def test_p3_fluctuating(zeros, codes):
    issues = found(CLASSIC, samples=gpu([95] * 501 + [95] * (500 - zeros) + [0] * zeros))
    assert [i.code for i in issues] == codes
    if zeros == 30:
        assert issues[0].evidence["p95_pct"] == 95
        assert issues[0].evidence["p5_pct"] == 0


def test_p4_the_mean_sees_what_two_quantiles_do_not():
    table = gpu([50] * 501 + [12] * 470 + [71] * 30)
    assert found(CLASSIC, samples=table) == []
    issues = found(LowGPUUtilization(window_s=250), samples=table)
    assert [i.code for i in issues] == ["low"]
    assert issues[0].evidence["mean_pct"] == pytest.approx(15.54)


def test_the_95th_percentile_at_the_threshold_is_neither():
    assert found(CLASSIC, samples=gpu([70] * 900 + [0] * 101)) == []


def test_modern_patience_is_a_time_whatever_the_interval():
    for interval in (0.1, 0.5, 5.0):
        count = round(310 / interval)
        assert found(LowGPUUtilization(), samples=gpu([20] * count, interval_s=interval))
        issues, window = look(LowGPUUtilization(), samples=gpu([20] * (count // 2), interval_s=interval))
        assert issues == []
        assert window.lack.reason == "patience_not_reached"


def test_start_up_is_not_judged_in_the_modern_profile():
    first = START + 400 * SECOND
    table = gpu([0] * 840 + [90] * 800)
    job = Job(start=START, first_step=first, warm={0: first + 10 * SECOND}, trainers=True)
    assert found(LowGPUUtilization(), job=job, samples=table) == []
    waiting = Job(start=START, trainers=True)
    issues, window = look(LowGPUUtilization(), job=waiting, samples=table)
    assert issues == []
    assert window.lack.reason == "patience_not_reached"


def test_checkpoints_are_no_fluctuation():
    idle = 60  # half a minute of idle readings, while a checkpoint is written
    table = gpu([90] * 700 + [0] * idle + [90] * 100)
    busy = steps([1.0] * 350)
    pause = steps([idle / 2], first=350, start=START + 350 * SECOND, checkpoint=0.99)
    rest = steps([1.0] * 50, first=351, start=START + (350 + idle // 2) * SECOND)
    rule = LowGPUUtilization(threshold_mean=0)
    whole = type(busy).concat([busy, pause, rest])
    assert found(rule, samples=table, steps=whole) == []
    calm = type(busy).concat([busy, steps([idle / 2], first=350, start=START + 350 * SECOND), rest])
    assert [i.code for i in found(rule, samples=table, steps=calm)] == ["fluctuating"]


def test_without_a_gpu_it_says_so():
    issues, window = look(LowGPUUtilization(), samples=samples({("cpu.util", ""): [50] * 2000}))
    assert issues == []
    assert window.lack.reason == "no_input"


def test_an_unused_gpu_is_not_judged():
    issues, window = look(LowGPUUtilization(), samples=gpu([0] * 2000))
    assert issues == []
    assert window.lack.reason == "no_match"


def test_each_gpu_is_judged_by_itself():
    table = samples({("gpu.util", "gpu0"): [90] * 1001, ("gpu.util", "gpu1"): [20] * 1001})
    assert [i.device for i in found(CLASSIC, samples=table)] == ["gpu1"]


def test_the_details_are_those_of_the_report():
    _, window = look(CLASSIC, samples=gpu([50] * 501 + [95] * 470 + [0] * 30))
    told = window.details["gpus"]["n0/gpu0"]
    assert (told["gpu_max"], told["gpu_95"], told["gpu_5"]) == (95, 95, 0)
    assert told["p25"] == pytest.approx(50, rel=0.01)
    assert told["p95"] == told["p75"] == told["upper"] == 95
    assert told["lower"] == 0
    assert told["last_timestamp"] == START + round(500.5 * SECOND)


def test_the_share_of_multiprocessors_is_judged_where_it_is_read():
    series = {("gpu.util", "gpu0"): [99] * 1001, ("gpu.sm_active", "gpu0"): [20] * 1001}
    (issue,) = found(LowGPUUtilization(threshold_p95=10), samples=samples(series))
    assert issue.evidence["threshold_pct"] == 30
    assert found(LowGPUUtilization(metric="gpu.util"), samples=samples(series)) == []
    assert found(CLASSIC, samples=samples(series)) == []


def test_the_gpu_of_somebody_else_is_not_judged():
    series = {("gpu.util", "gpu0"): [20] * 1001, ("gpu.procs", "gpu0"): [0] * 1001}
    assert look(LowGPUUtilization(), samples=samples(series))[0] == []
    series["gpu.procs", "gpu0"] = [0] * 20 + [1] * 981
    assert look(LowGPUUtilization(), samples=samples(series))[0] != []
