"""Rules about GPUs that are sick, hot, idle or not used, and about who owns them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look, samples

from holter.rules import Job, Window
from holter.rules.reliability.hardware_error import HardwareError
from holter.rules.system.energy_waste import EnergyWaste
from holter.rules.system.thermal_throttling import ThermalThrottling
from holter.rules.system.unused_gpu import UnusedGPU
from holter.schema.table import Table

MIB, GIB = 2**20, 2**30
H100 = {"device": "gpu0", "name": "NVIDIA H100 80GB HBM3"}


def codes(issues):
    return [(issue.code, issue.severity) for issue in issues]


def job(*names, **facts):
    gpus = [{"device": f"gpu{i}", "name": name} for i, name in enumerate(names)]
    return Job(start=START, nodes={"n0": {"gpus": gpus}}, **facts)


def gpus(count=600, *, each=1, **metrics):
    """Samples of `each` GPUs: metric (with _ for .) → one value, or values for each GPU."""
    series = {}
    for name, value in metrics.items():
        for i in range(each):
            one = value[i] if isinstance(value, list) else value
            series["gpu." + name, f"gpu{i}"] = np.broadcast_to(one, count).astype(float)
    return samples(series)


@pytest.mark.parametrize(
    ("xid", "severity"), [(79, "critical"), (48, "critical"), (63, "warning"), (13, "info"), (999, "info")]
)
def test_an_xid_is_told_at_once_with_its_meaning(xid, severity):
    (issue,) = found(HardwareError(), samples=samples({("gpu.xid", "gpu3"): [xid]}))
    assert (issue.code, issue.severity, issue.device) == (f"xid_{xid}", severity, "gpu3")
    assert issue.evidence == {"xid": xid}
    assert HardwareError.consecutive == 1
    assert "default" in HardwareError.packs


def test_memory_errors_of_this_job_are_critical_and_older_ones_are_not():
    assert found(HardwareError(), samples=gpus(ecc_uncorrected=0.0)) == []
    assert codes(found(HardwareError(), samples=gpus(ecc_uncorrected=2.0))) == [("ecc_before", "warning")]
    rising = np.where(np.arange(600) > 300, 3.0, 2.0)
    (issue,) = found(HardwareError(), samples=gpus(ecc_uncorrected=rising))
    assert (issue.code, issue.severity) == ("ecc", "critical")
    assert issue.evidence == {"errors": 3, "before_the_job": 2}


def test_rows_that_wait_to_be_remapped():
    assert codes(found(HardwareError(), samples=gpus(remap_pending=1.0, remap_failed=0.0))) == [
        ("remap_pending", "warning")
    ]
    assert codes(found(HardwareError(), samples=gpus(remap_failed=1.0))) == [("remap_failed", "critical")]


@pytest.mark.parametrize(("per_minute", "fires"), [(8, False), (60, True)])
def test_pcie_replays_are_counted_by_the_minute(per_minute, fires):
    table = gpus(pcie_replays=100 + np.arange(600) * 0.5 / 60 * per_minute)
    assert codes(found(HardwareError(), samples=table)) == ([("pcie_replays", "warning")] if fires else [])


@pytest.mark.parametrize(("util", "width", "fires"), [(90, 8, True), (10, 8, False), (90, 16, False)])
def test_a_narrow_link_counts_only_under_load(util, width, fires):
    table = gpus(util=util, pcie_width=width, pcie_width_max=16, pcie_gen=5, pcie_gen_max=5)
    assert codes(found(HardwareError(), samples=table)) == ([("pcie_width", "warning")] if fires else [])


def test_errors_of_somebody_elses_gpu_are_not_told():
    series = {("gpu.xid", "gpu0"): [31.0], ("gpu.procs", "gpu0"): [0.0], ("gpu.procs", "gpu1"): [1.0]}
    assert look(HardwareError(), samples=samples(series))[0] == []


def test_without_a_gpu_every_rule_on_gpus_is_silent_and_says_why():
    table = samples({("cpu.util", ""): np.full(2000, 50.0), ("psi.cpu", ""): np.full(2000, 5.0)})
    for rule in (HardwareError(), ThermalThrottling(), UnusedGPU(), EnergyWaste()):
        issues, window = look(rule, samples=table)
        assert issues == []
        assert window.points == 0
        assert window.lack.reason == "no_input"


HEAT, CAP, SLOW = 0x20, 0x4, 0x8


@pytest.mark.parametrize(
    ("bits", "of_1200", "expected"),
    [
        (HEAT, 1, [("heat", "info")]),
        (HEAT, 12, [("heat", "warning")]),
        (HEAT, 120, [("heat", "critical")]),
        (SLOW, 2, [("hardware", "warning")]),
        (SLOW, 60, [("hardware", "critical")]),
        (CAP, 1200, []),
        (0x1, 1200, []),
    ],
)
def test_why_clocks_are_lowered_counts_in_busy_time(bits, of_1200, expected):
    reasons = np.where(np.arange(1200) % (1200 // of_1200) == 0, bits, 0)
    table = gpus(1200, util=90, throttle_reasons=reasons, clock_sm=1700)
    assert codes(found(ThermalThrottling(), samples=table)) == expected


def test_an_idle_gpu_lowers_its_clock_by_right():
    idle = gpus(1200, util=5, throttle_reasons=HEAT | 0x1, clock_sm=345)
    issues, window = look(ThermalThrottling(), samples=idle)
    assert issues == []
    assert window.lack.reason == "patience_not_reached"


@pytest.mark.parametrize(("clock", "expected"), [(1650, []), (1550, "warning"), (1400, "critical")])
def test_a_gpu_that_is_slower_than_those_of_its_model(clock, expected):
    table = gpus(1200, each=4, util=95, clock_sm=[1700, 1710, clock, 1690], throttle_reasons=CAP)
    issues = found(ThermalThrottling(), job=job(*["A"] * 4), samples=table)
    assert codes(issues) == ([("slower", expected)] if expected else [])
    if expected:
        assert issues[0].device == "gpu2"
        assert issues[0].evidence["power_cap_pct"] == 100


def test_another_model_may_run_slower():
    table = gpus(1200, each=3, util=95, clock_sm=[1700, 1710, 1200], throttle_reasons=0)
    assert found(ThermalThrottling(), job=job("A", "A", "B"), samples=table) == []


def test_heat_close_to_the_limit_for_a_minute():
    table = gpus(1200, util=95, clock_sm=1700, throttle_reasons=0, temp=90, temp_slowdown=92, mem_temp=80)
    assert codes(found(ThermalThrottling(), samples=table)) == [("hot", "warning")]
    short = np.where(np.arange(1200) > 1180, 91, 70)
    table = gpus(1200, util=95, clock_sm=1700, throttle_reasons=0, temp=short, temp_slowdown=92, mem_temp=97)
    assert codes(found(ThermalThrottling(), samples=table)) == [("hot_memory", "warning")]


def unused(util, memory, *, minutes=15, trainers=None, cuda=False, ranks=1):
    count, each = minutes * 12, len(util)
    metrics = {"util": [float(u) for u in util], "mem.used": [float(m) for m in memory]}
    series = {
        ("gpu." + name, f"gpu{i}"): np.full(count, values[i])
        for name, values in metrics.items()
        for i in range(each)
    }
    for i, owners in enumerate(trainers or []):
        series["gpu.procs", f"gpu{i}"] = np.full(count, float(owners))
    scalars = [{"time": START + SECOND, "rank": 0, "step": 1, "name": "cuda.total", "value": 80.0 * GIB}]
    warm = dict.fromkeys(range(ranks), START + 2 * SECOND)
    return look(
        UnusedGPU(),
        job=Job(start=START, first_step=START + SECOND, warm=warm, trainers=True),
        samples=samples(series, interval_s=5.0),
        scalars=Table.of("scalars", scalars if cuda else []),
    )


def test_a_gpu_that_is_visible_and_not_used():
    issues, _ = unused([90, 0], [40 * GIB, 10 * MIB], trainers=[1, 0])
    assert codes(issues) == [("world_smaller_than_devices", "critical")]
    assert issues[0].evidence["unused"] == ["gpu1"]
    issues, _ = unused([90] * 7 + [0], [40 * GIB] * 7 + [0], trainers=[1] * 7 + [0])
    assert codes(issues) == [("world_smaller_than_devices", "warning")]
    issues, _ = unused([90, 0], [40 * GIB, 0], cuda=True)
    assert issues


@pytest.mark.parametrize(
    "about",
    [
        {
            "util": [90, 0],
            "memory": [40 * GIB, 0],
            "trainers": [0, 0],
        },  # somebody else's job, ours is on the CPU
        {"util": [90, 0], "memory": [40 * GIB, 0]},  # whose it is cannot be told
        {"util": [90, 0], "memory": [40 * GIB, 2 * GIB], "trainers": [1, 0]},  # somebody holds it
        {"util": [90, 0], "memory": [40 * GIB, 0], "trainers": [1, 0], "minutes": 5},
        {"util": [0, 0], "memory": [0, 0], "trainers": [1, 0]},
        {"util": [90, 60], "memory": [40 * GIB, 40 * GIB], "trainers": [1, 1]},
    ],
)
def test_a_gpu_is_not_called_unused_without_good_reason(about):
    assert unused(about.pop("util"), about.pop("memory"), **about)[0] == []


def test_two_processes_on_one_gpu_while_another_is_free():
    issues, _ = unused([90, 0], [40 * GIB, 0], trainers=[2, 0], minutes=3)
    assert codes(issues) == [("two_ranks_one_device", "warning")]
    assert unused([90], [40 * GIB], trainers=[2])[0] == []


def energy(idle_share, *, minutes=60, idle_w=100.0, busy_w=100.0, owners=None):
    """One GPU that idles in pieces all over its life; readings every five seconds."""
    count = minutes * 12
    idle = np.random.default_rng(7).permutation(np.arange(count) < idle_share * count)
    series = {
        ("gpu.power", "gpu0"): np.where(idle, idle_w, busy_w),
        ("gpu.util", "gpu0"): np.where(idle, 0.0, 95.0),
    }
    if owners is not None:
        series["gpu.procs", "gpu0"] = np.full(count, float(owners))
    return {"job": Job(start=START, interval_ms=5000), "samples": samples(series, interval_s=5.0)}


@pytest.mark.parametrize(
    ("share", "expected"), [(0.05, []), (0.12, "info"), (0.3, "warning"), (0.6, "critical")]
)
def test_energy_of_idle_gpus(share, expected):
    issues = found(EnergyWaste(), **energy(share))
    assert [issue.severity for issue in issues] == ([expected] if expected else [])
    if expected:
        assert issues[0].evidence["idle_pct_of_energy"] == pytest.approx(100 * share, abs=1)
        assert issues[0].evidence["all_kwh"] == pytest.approx(0.1, rel=0.01)


def test_energy_counts_watts_not_time():
    (issue,) = found(EnergyWaste(), **energy(0.5, idle_w=100.0, busy_w=300.0))
    assert issue.evidence["idle_pct_of_energy"] == pytest.approx(25, abs=1)


def test_energy_of_short_jobs_idle_machines_and_other_people_is_not_judged():
    assert look(EnergyWaste(), **energy(0.6, minutes=20))[1].lack.reason == "run_too_short"
    assert look(EnergyWaste(), **energy(1.0))[1].lack.reason == "no_input"
    assert look(EnergyWaste(), **energy(0.6, owners=0))[1].lack.reason == "no_input"


def test_energy_adds_up_however_the_data_are_split():
    about = energy(0.37)
    (whole,) = found(EnergyWaste(), **about)
    state, cut, issues = {}, START + 1234 * SECOND, []
    for start, end in ((START - 1, cut), (cut, START + 3600 * SECOND)):
        window = Window.of(EnergyWaste().lookback, start=start, end=end, state=state, **about)
        issues = list(EnergyWaste().evaluate(window))
    assert issues[0].evidence == pytest.approx(whole.evidence)
