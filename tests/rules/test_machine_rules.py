"""Rules of old on the machine: batch size, growth of memory, balance of load, and the report of them all."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look, samples, steps

from holter.evaluation.selection import choose
from holter.rules import BadRule, Job, Window
from holter.rules.system.batch_size import BatchSize
from holter.rules.system.gpu_memory_increase import GPUMemoryIncrease
from holter.rules.system.load_balancing import LoadBalancing, distance
from holter.rules.system.profiler_report import ProfilerReport
from holter.schema.table import Table

GIB = 2**30


def machine(cpu, gpu, memory, *, metric="gpu.mem.busy", count=1001):
    series = {("cpu.core.util", "cpu0"): cpu, ("gpu.util", "gpu0"): gpu, (metric, "gpu0"): memory}
    return samples({key: np.full(count, float(v)) if np.isscalar(v) else v for key, v in series.items()})


@pytest.mark.parametrize(
    ("cpu", "gpu", "memory", "fires"),
    [(60, 60, 60, True), (75, 60, 60, False), (60, 75, 60, False), (60, 60, 75, False)],
)
def test_p17_batch_size(cpu, gpu, memory, fires):
    rule = BatchSize.of(defaults="classic")
    issues = found(rule, samples=machine(cpu, gpu, memory))
    assert bool(issues) == fires
    if fires:
        assert issues[0].severity == "info"
        assert issues[0].evidence["gpu_memory_p95"] == 60
    _, window = look(rule, samples=machine(cpu, gpu, memory))
    assert window.details["boxes"]["gpu of n0/gpu0"]["p75"] == pytest.approx(gpu, rel=0.01)
    assert set(window.details["boxes"]) == {"cpu of n0", "gpu of n0/gpu0", "memory of n0/gpu0"}


def test_batch_size_needs_patience():
    issues, window = look(BatchSize.of(defaults="classic"), samples=machine(60, 60, 60, count=1000))
    assert issues == []
    assert (window.lack.reason, window.lack.have) == ("patience_not_reached", 1000)


def test_the_cpu_is_the_mean_of_its_cores():
    cores = {("cpu.core.util", f"cpu{i}"): np.full(1001, 99.0 if i == 0 else 10.0) for i in range(8)}
    gpu = {("gpu.util", "gpu0"): np.full(1001, 40.0), ("gpu.mem.busy", "gpu0"): np.full(1001, 20.0)}
    assert found(BatchSize.of(defaults="classic"), samples=samples(cores | gpu))


@pytest.mark.parametrize(("loading", "fires"), [(0.02, True), (0.3, False)])
def test_a_starving_gpu_needs_no_larger_batch(loading, fires):
    table = machine(50, 40, 30, metric="gpu.mem.used_pct")
    issues = found(BatchSize(), samples=table, steps=steps([1.0] * 500, data_loading=loading, forward=0.3))
    assert bool(issues) == fires


def cuda(values, *, rank=0, every_s=1.0, first=0):
    """Scalars of PyTorch's allocator: name → a value for each step."""
    count = max(np.size(v) for v in values.values())
    rows = [
        {
            "time": START + round((first + i + 1) * every_s * SECOND),
            "rank": rank,
            "step": first + i,
            "mode": "train",
            "node": "n0",
            "name": name,
            "value": float(np.broadcast_to(v, count)[i]),
        }
        for name, v in values.items()
        for i in range(count)
    ]
    return Table.of("scalars", rows)


def test_how_much_larger_a_batch_would_fit_is_estimated():
    table = machine(50, 40, 30, metric="gpu.mem.used_pct")
    told = {"cuda.allocated_peak": 24 * GIB, "cuda.allocated": 8 * GIB, "cuda.total": 80 * GIB}
    scalars = cuda(told | {"cuda.total": np.full(450, 80.0 * GIB)})
    issue = found(BatchSize(), samples=table, scalars=scalars)[0]
    assert issue.evidence["batch_multiplier"] == 4  # (0.9 - 0.1) / (0.3 - 0.1)


def test_a_framework_that_takes_all_memory_at_once_is_not_told_to_raise_the_batch():
    assert found(BatchSize(), samples=machine(50, 40, 95, metric="gpu.mem.used_pct")) == []


@pytest.mark.parametrize(("jump", "count"), [(25, 0), (26, 1)])
def test_p8_a_step_of_memory_after_the_published_formula(jump, count):
    rule = GPUMemoryIncrease.of(defaults="classic")
    values = np.concatenate([np.full(1200, 20.0), np.full(300, 20.0 + jump)])
    issues = found(rule, samples=samples({("gpu.mem.busy", "gpu0"): values}))
    assert len(issues) == count
    if issues:
        assert issues[0].evidence["increase_points"] == pytest.approx(5.2)


def test_p9_a_ramp_is_not_seen_by_the_published_formula():
    ramp = np.linspace(20, 90, 7200)
    assert (
        found(GPUMemoryIncrease.of(defaults="classic"), samples=samples({("gpu.mem.busy", "gpu0"): ramp}))
        == []
    )


def test_the_published_formula_gives_the_same_however_the_data_are_split():
    rule = GPUMemoryIncrease.of({"patience": 50}, defaults="classic")
    values = np.random.default_rng(1).normal(40, 20, 400)
    table = samples({("gpu.mem.busy", "gpu0"): values})
    whole = found(rule, samples=table)[0]
    state, parts, cut = {}, [], START + round(93.7 * SECOND)
    for start, end in ((START - 1, cut), (cut, START + 400 * SECOND)):
        window = Window.of(
            rule.lookback, start=start, end=end, state=json.loads(json.dumps(state)), samples=table
        )
        parts += list(rule.evaluate(window))
        state = window.state
    assert sum(issue.count for issue in parts) == whole.count > 1
    most = max(issue.evidence["increase_points"] for issue in parts)
    assert most == pytest.approx(whole.evidence["increase_points"])


def grown(values, rule=None, **more):
    """Let GPUMemoryIncrease look every ten seconds."""
    rule = rule or GPUMemoryIncrease()
    table = samples({("gpu.mem.used_pct", "gpu0"): values}, interval_s=1.0)
    state, issues = {}, []
    for end in range(10, len(values) + 1, 10):
        bounds = {"start": START + (end - 10) * SECOND, "end": START + end * SECOND}
        window = Window.of(rule.lookback, job=Job(start=START), state=state, samples=table, **bounds, **more)
        issues += rule.evaluate(window)
    return issues


def test_memory_that_stays_higher_than_it_was_is_found():
    assert grown(np.concatenate([np.full(900, 40.0), np.full(400, 47.0)]))
    assert grown(np.concatenate([np.full(900, 40.0), np.full(400, 44.0)])) == []


def test_an_evaluation_now_and_then_is_no_growth_of_memory():
    values = np.full(3000, 40.0)
    for at in range(800, 3000, 500):
        values[at : at + 90] = 70.0
    assert grown(values) == []


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [([1, 1], [1, 1], 0.0), ([1, 0], [0, 1], 0.8326), ([1, 1], [1, 0], 0.4645), ([3, 1], [1, 3], 0.3617)],
)
def test_p10_distances(first, second, expected):
    assert distance(first, second) == pytest.approx(expected, abs=1e-4)
    assert distance(second, first) == pytest.approx(expected, abs=1e-4)


def two(first, second, more=()):
    series = {("gpu.util", "gpu0"): first, ("gpu.util", "gpu1"): second}
    return samples({key: np.clip(value, 0, 100) for key, value in series.items()} | dict(more))


def test_balance_of_load_is_found_as_it_was_calibrated():
    random = np.random.default_rng(3)
    for mean, expected in ((88, 0.14), (85, 0.34), (80, 0.57)):
        table = two(random.normal(90, 5, 2000), random.normal(mean, 5, 2000))
        issues = found(LoadBalancing.of(defaults="classic"), samples=table)
        assert bool(issues) == (expected > 0.2)
        if issues:
            assert issues[0].evidence["distance"] == pytest.approx(expected, abs=0.06)
    fully = two(np.full(1001, 100.0), np.full(1001, 20.0))
    assert found(LoadBalancing.of(defaults="classic"), samples=fully)


def test_five_points_are_no_imbalance_and_forty_are():
    random = np.random.default_rng(4)
    assert found(LoadBalancing(), samples=two(random.normal(90, 4, 1300), random.normal(84, 4, 1300))) == []
    (issue,) = found(LoadBalancing(), samples=two(random.normal(90, 4, 1300), random.normal(50, 4, 1300)))
    assert issue.evidence["mean_pct"]["gpu1 of n0"] < 55
    _, window = look(LoadBalancing(), samples=two(np.full(1300, 90.0), np.full(1300, 50.0)))
    assert window.details["distances"] == {"gpu0 of n0": {"gpu1 of n0": 1.0}}
    assert sum(window.details["workloads"]["gpu1 of n0"]) == 1200  # of ten minutes


def test_bursts_in_turn_are_balanced():
    burst = np.tile(np.repeat([95.0, 5.0], 20), 33)
    assert found(LoadBalancing(), samples=two(burst, np.roll(burst, 20))) == []


def test_the_gpu_of_somebody_else_is_not_compared():
    owners = {("gpu.procs", "gpu0"): np.full(1300, 1.0), ("gpu.procs", "gpu1"): np.zeros(1300)}
    table = two(np.full(1300, 90.0), np.full(1300, 30.0), owners)
    issues, window = look(LoadBalancing(), samples=table)
    assert issues == []
    assert window.lack.reason == "no_match"
    job = Job(start=START, first_step=START, warm={0: START + SECOND}, trainers=True)
    issues, window = look(LoadBalancing(), job=job, samples=two(np.full(1300, 90.0), np.full(1300, 30.0)))
    assert issues == []
    assert "more GPUs than ranks" in window.lack.text


def test_classic_balance_adds_up_over_windows():
    rule = LoadBalancing.of(defaults="classic")
    table = two(np.full(1200, 90.0), np.full(1200, 40.0))
    cut, state = START + 300 * SECOND, {}
    first = Window.of(rule.lookback, end=cut, state=state, samples=table)
    assert list(rule.evaluate(first)) == []
    assert first.lack.reason == "patience_not_reached"
    second = Window.of(rule.lookback, start=cut, state=json.loads(json.dumps(first.state)), samples=table)
    assert list(rule.evaluate(second))


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
        ({"parameters_of_rules": "[1"}, "no JSON object"),
        ({"threshold": 1}, "no parameter 'threshold'"),
    ],
)
def test_a_parameter_that_no_rule_of_the_report_has_is_refused(given, says):
    with pytest.raises(BadRule, match=says):
        ProfilerReport.of(given)
