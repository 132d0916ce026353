"""Rules about training that is sick, not slow: losses, stalls, leaks; and the summary of the machine."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look, samples, steps

from holter.rules import BadRule, Job, Window
from holter.rules.patterns.logged import ANY_LOSS
from holter.rules.reliability.stalled_training import StalledTraining
from holter.rules.system.host_memory_leak import HostMemoryLeak
from holter.rules.system.overall_system_usage import OverallSystemUsage
from holter.rules.training.nonfinite_loss import NonFiniteLoss
from holter.schema.table import Table

MIB, GIB = 2**20, 2**30


def losses(values, *, rank=0, name="loss", first=0):
    rows = [
        {
            "time": START + (first + i) * SECOND,
            "rank": rank,
            "step": first + i,
            "mode": "train",
            "name": name,
            "value": v,
        }
        for i, v in enumerate(values)
    ]
    return Table.of("scalars", rows)


def test_the_first_nan_is_named_and_what_was_before():
    (issue,) = found(NonFiniteLoss(), scalars=losses([0.9, 0.8, math.nan, math.nan]))
    assert (issue.severity, issue.step_start, issue.rank, issue.count) == ("critical", 2, 0, 2)
    assert issue.summary == "loss became NaN at step 2 on rank 0; it was 0.8 at step 1"
    assert issue.evidence["last_finite"] == {"step": 1, "value": 0.8}


def test_a_loss_that_never_was_finite_says_so():
    (issue,) = found(NonFiniteLoss(), scalars=losses([-math.inf]))
    assert issue.summary == "loss became minus infinite at step 0 on rank 0; it never was finite"
    assert issue.evidence["finite_before"] is False


def test_all_ranks_that_followed_are_listed_and_the_first_stays_the_first():
    state = {}
    rule = NonFiniteLoss()
    look(rule, scalars=losses([0.5, math.nan], rank=3), state=state)
    (issue,) = look(rule, scalars=losses([math.nan], rank=0, first=2), state=json.loads(json.dumps(state)))[0]
    assert (issue.rank, issue.step_start) == (3, 1)
    assert issue.evidence["ranks"] == [0, 3]


def test_other_numbers_are_none_of_its_business():
    issues, window = look(NonFiniteLoss(), scalars=losses([math.nan], name="gloss"))
    assert issues == []
    assert window.lack.reason == "no_input"
    assert found(NonFiniteLoss(), scalars=losses([math.nan], name="val_loss"))
    assert found(NonFiniteLoss(names="^metric$"), scalars=losses([math.nan], name="metric"))


def test_a_pattern_that_does_not_compile_is_refused():
    with pytest.raises(BadRule, match="no pattern"):
        NonFiniteLoss(names="(")


def event(kind, detail, *, at, rank=0):
    row = {
        "time": START + at * SECOND,
        "rank": rank,
        "kind": kind,
        "name": kind,
        "detail": json.dumps(detail),
    }
    return Table.of("events", [row])


HANG = {
    "ranks": [1],
    "phase": "backward",
    "step": 40,
    "silent_s": 121.0,
    "limit_s": 120.0,
    "recovered": False,
}


def stalled(window_end, *, events=None, state=None, job=None, table=None):
    job = job or Job(start=START, trainers=True)
    tables = {"steps": steps([0.5] * 100) if table is None else table}
    if events is not None:
        tables["events"] = events
    rule = StalledTraining()
    window = Window.of(rule.lookback, job=job, end=START + window_end * SECOND, state=state, **tables)
    return list(rule.evaluate(window)), window


def test_a_hang_is_told_when_seen_and_once_more_when_critical():
    state = {}
    (first,), _ = stalled(180, events=event("hang", HANG, at=175, rank=1), state=state)
    assert (first.severity, first.rank, first.step_start) == ("warning", 1, 40)
    assert first.summary.startswith("rank 1 hangs in backward at step 40")
    assert stalled(300, state=state)[0] == []
    state = json.loads(json.dumps(state))
    (later,), _ = stalled(450, state=state)
    assert later.severity == "critical"
    assert later.key == first.key
    assert stalled(900, state=state)[0] == []


def test_a_hang_that_ended_does_not_become_critical():
    state = {}
    stalled(180, events=event("hang", HANG, at=175, rank=1), state=state)
    stalled(200, events=event("hang", {"recovered": True}, at=190, rank=1), state=state)
    assert stalled(900, state=state)[0] == []


def test_the_hang_of_a_rank_goes_on_when_another_recovers():
    state = {}
    hangs = Table.concat(
        [
            event("hang", {**HANG, "ranks": ranks}, at=175, rank=rank)
            for ranks, rank in (([1], 1), ([2, 3], -1))
        ]
    )
    told, _ = stalled(180, events=hangs, state=state)
    assert {issue.rank for issue in told} == {1, None}
    for rank in (1, 2):
        stalled(200, events=event("hang", {"recovered": True}, at=190, rank=rank), state=state)
    state = json.loads(json.dumps(state))
    (later,), _ = stalled(900, state=state)
    assert (later.severity, later.rank) == ("critical", 3)
    stalled(1000, events=event("hang", {"recovered": True}, at=990, rank=3), state=state)
    assert state["hangs"] == {}


def test_a_lost_rank_is_critical():
    (issue,), _ = stalled(60, events=event("lost", {"step": 7, "living": [1]}, at=50, rank=0))
    assert (issue.severity, issue.rank, issue.step_start, issue.code) == ("critical", 0, 7, "lost")


def test_silence_is_judged_where_no_agent_watches():
    nobody = Job(start=START)
    assert stalled(160, job=nobody)[0] == []
    (issue,), _ = stalled(175, job=nobody)
    assert (issue.code, issue.severity, issue.rank) == ("silent", "warning", 0)
    (issue,), _ = stalled(50 + 361, job=nobody)
    assert issue.severity == "critical"


def test_slow_steps_are_allowed_longer_silence():
    nobody, slow = Job(start=START), steps([30.0] * 20)
    assert stalled(600 + 290, job=nobody, table=slow)[0] == []
    assert stalled(600 + 310, job=nobody, table=slow)[0]


def test_a_worker_that_ended_does_not_excuse_its_trainer():
    state = {}
    stalled(60, events=event("exit", {"role": "worker"}, at=55), state=state, job=Job(start=START))
    assert stalled(5000, state=state, job=Job(start=START))[0]


def test_a_process_that_ended_is_not_silent():
    state = {}
    stalled(60, events=event("exit", {"clean": True}, at=55), state=state, job=Job(start=START))
    assert stalled(5000, state=state, job=Job(start=START))[0] == []


def test_nothing_known_is_nothing_judged():
    issues, window = look(StalledTraining())
    assert issues == []
    assert window.lack.reason == "no_input"


def memory(series, *, interval_s=10.0):
    return samples({("proc.private", role): values for role, values in series.items()}, interval_s=interval_s)


def leak(table, minutes, nodes=None):
    job = Job(start=START, nodes=nodes or {"n0": {"memory_bytes": 64 * GIB}})
    return look(HostMemoryLeak(), job=job, samples=table)[0]


@pytest.mark.parametrize("seed", range(5))
def test_a_leak_is_found_in_noise(seed):
    t = np.arange(6 * 50)
    values = 4 * GIB + 40 * MIB * t / 6 + np.random.default_rng(seed).normal(0, 100 * MIB, len(t))
    (issue,) = leak(memory({"worker": values, "trainer": np.full(len(t), float(GIB))}), 50)
    assert issue.evidence["cause"] == "workers"
    assert issue.evidence["slope_bytes_per_h"] == pytest.approx(40 * MIB * 60, rel=0.2)
    assert issue.severity == "warning"


@pytest.mark.parametrize("seed", range(5))
def test_noise_one_jump_and_growth_that_levels_off_are_no_leaks(seed):
    random = np.random.default_rng(seed)
    t = np.arange(6 * 60)
    noise = random.normal(0, 100 * MIB, len(t))
    assert leak(memory({"trainer": 4 * GIB + noise}), 60) == []
    assert leak(memory({"trainer": 4 * GIB + noise + (t > 200) * 3 * GIB}), 60) == []
    assert leak(memory({"trainer": 4 * GIB + noise + 3 * GIB * (1 - np.exp(-t / 40))}), 60) == []


def test_a_leak_that_soon_fills_the_memory_is_critical():
    t = np.arange(6 * 60)
    own = memory({"trainer": 20 * GIB + 200 * MIB * t / 6})
    free = samples({("mem.available", ""): 40 * GIB - 200 * MIB * t / 6}, interval_s=10.0)
    (issue,) = leak(Table.concat([own, free]), 60)
    assert issue.severity == "critical"
    assert issue.evidence["hours_to_90_pct"] == pytest.approx((28 - 6.4) * 1024 / 200 / 60, rel=0.1)


def test_a_short_job_is_not_judged_for_leaks():
    job = Job(start=START)
    issues, window = look(HostMemoryLeak(), job=job, samples=memory({"trainer": [1.0 * GIB] * 60}))
    assert issues == []
    assert window.lack.reason in ("patience_not_reached", "no_input")


def test_p16_system_usage_never_fires():
    n = 1000
    random = np.random.default_rng(0)
    cpu = random.uniform(0, 100, n)
    series = {
        ("cpu.util", ""): cpu,
        ("mem.used_pct", ""): random.uniform(10, 20, n),
        ("cpu.iowait", ""): np.zeros(n),
    }
    for i in range(4):
        series["gpu.util", f"gpu{i}"] = random.uniform(0, 100, n)
        series["gpu.mem.used_pct", f"gpu{i}"] = np.full(n, 25.0 * i)
    series["net.rx", "eth0"], series["net.tx", "eth0"] = np.full(n, 1e9), np.full(n, 5e8)
    issues, window = look(OverallSystemUsage(), samples=samples(series))
    assert issues == []
    groups = window.details["nodes"]["n0"]
    six = ("CPU", "GPU", "CPU memory", "GPU memory", "I/O", "Network")
    assert all(set(groups[name]) == {"min", "p50", "p95", "p99", "max"} for name in six)
    assert groups["CPU"]["p95"] == pytest.approx(np.percentile(cpu, 95), rel=0.01)
    assert groups["GPU memory"]["p50"] == pytest.approx(37.5, rel=0.005)
    assert groups["I/O"] == {"min": 0.0, "p50": 0.0, "p95": 0.0, "p99": 0.0, "max": 0.0}
    assert groups["Network"]["max"] == 1.5e9
    assert "Disk" not in groups or groups["Disk"] == {}


def test_system_usage_is_the_same_in_one_piece_and_in_many():
    table = samples({("cpu.util", ""): np.random.default_rng(1).uniform(0, 100, 500)})
    whole = look(OverallSystemUsage(), samples=table)[1].details
    state = {}
    for k in range(0, 500, 100):
        piece = look(OverallSystemUsage(), samples=table.where(np.arange(k, k + 100)), state=state)[1].details
        state = json.loads(json.dumps(state))
    assert piece == whole


def test_the_scale_of_mixed_precision_is_no_loss() -> None:
    for name in ("loss", "train_loss", "Loss/total", "val-loss", "lossless"):
        assert re.search(ANY_LOSS, name), name
    for name in ("loss_scale", "amp/loss-scaler", "train/lossscaling", "floss", "loss/loss_scale"):
        assert not re.search(ANY_LOSS, name), name
    assert look(NonFiniteLoss(), scalars=losses([math.inf] * 3, name="loss_scale"))[0] == []
