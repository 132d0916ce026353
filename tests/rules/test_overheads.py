"""Rules on what takes time from training: checkpoints, pauses, compilation, evaluation, copies, holter."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look, samples, steps

from holter.rules import Job, Rule, Window
from holter.rules.between_step_overhead import BetweenStepOverhead
from holter.rules.checkpoint_stall import CheckpointStall
from holter.rules.eval_overhead import EvalOverhead
from holter.rules.first_step_slow import FirstStepSlow
from holter.rules.gc_pause import GCPause
from holter.rules.h2d_bound import H2DBound
from holter.rules.no_checkpoint import NoCheckpoint
from holter.rules.observer_overhead import ObserverOverhead
from holter.rules.recompilation_storm import RecompilationStorm
from holter.schema.table import Table

HOUR = 3600 * SECOND
WARM = Job(start=START, first_step=START, warm=dict.fromkeys(range(512), START))
NODES = {"n0": {"cpus": 4}}


def every(period: int, count: int, usual: float, extra: float, part: str, *, offset: int = 0) -> Table:
    """Make steps of which each `period`-th spends `extra` seconds more, in one part."""
    slow = (np.arange(count) + offset) % period == period - 1
    table = steps(np.where(slow, usual + extra, usual), forward=0.5)
    spent = np.where(slow, round(extra * SECOND), 0)
    forward = np.full(count, round(usual * SECOND / 2))
    parts = {part: spent, "forward": forward, "other": table["duration"] - forward - spent}
    return Table({**table.columns, **parts})


def spans(phase: str, times: np.ndarray, duration: float, **columns: object) -> Table:
    """Make spans of the main thread that begin at so many seconds."""
    rows = [
        {
            "time": START + round(t * SECOND),
            "duration": round(duration * SECOND),
            "phase": phase,
            "worker": -1,
        }
        for t in times.tolist()
    ]
    table = Table.of("spans", [{"rank": 0, "node": "n0", "mode": "train", **row} for row in rows])
    given = {name: np.broadcast_to(np.asarray(v), table.rows).copy() for name, v in columns.items()}
    return Table({**table.columns, **{n: v.astype(table[n].dtype) for n, v in given.items()}})


# --- checkpoints


@pytest.mark.parametrize(
    ("blocked", "severity"), [(0.1, None), (3, "info"), (6, "warning"), (20, "critical")]
)
def test_checkpoints_by_their_share_of_the_time(blocked, severity):
    issues = found(CheckpointStall(), job=WARM, steps=every(100, 1000, 1.0, blocked, "checkpoint"))
    assert [i.severity for i in issues if i.code == "share"] == ([severity] if severity else [])


def test_checkpoints_of_each_epoch_of_a_short_demo_are_a_note_at_most():
    (issue,) = found(CheckpointStall(), job=WARM, steps=every(100, 500, 0.02, 0.4, "checkpoint"))
    assert issue.severity == "info"
    assert found(CheckpointStall(), job=WARM, steps=every(100, 500, 0.01, 0.1, "checkpoint")) == []


def test_a_first_checkpoint_is_no_share():
    issues, window = look(CheckpointStall(), job=WARM, steps=every(60, 61, 0.1, 30, "checkpoint"))
    assert issues == []
    assert window.lack.reason == "too_few_points"


def test_one_long_checkpoint_is_told_by_itself():
    issues = found(CheckpointStall(), job=WARM, steps=every(500, 600, 1.0, 90, "checkpoint"))
    assert [(i.code, i.severity) for i in issues] == [("single", "warning")]


def test_slow_storage_is_a_cause():
    written = spans("checkpoint", np.arange(10) * 110.0 + 100, 10, value=1e9)
    table = every(100, 1000, 1.0, 10, "checkpoint")
    (issue,) = found(CheckpointStall(), job=WARM, steps=table, spans=written)
    assert issue.evidence["bandwidth_gb_s"] == pytest.approx(0.1)
    assert {"slow_storage", "too_frequent"} <= set(issue.evidence["causes"])


def test_others_that_wait_for_the_rank_that_saves():
    saves = every(100, 1000, 1.0, 10, "checkpoint")
    waits = every(100, 1000, 1.0, 10, "communication")
    waits = Table({**waits.columns, "rank": np.ones(1000, dtype=np.int32)})
    (issue,) = found(CheckpointStall(), job=WARM, steps=Table.concat([saves, waits]))
    assert "rank0_only" in issue.evidence["causes"]


def test_hours_without_a_checkpoint():
    table = steps([60.0] * 300)
    (issue,) = found(NoCheckpoint(), job=WARM, steps=table)
    assert issue.evidence["hours"] == pytest.approx(5)
    saved = spans("checkpoint", np.array([2.0 * 3600]), 1)
    assert found(NoCheckpoint(), job=WARM, steps=table, spans=saved) == []
    assert look(NoCheckpoint(planned_h=72), job=WARM, steps=table)[0] == []
    assert look(NoCheckpoint(), job=WARM, steps=steps([60.0] * 30))[1].lack.reason == "patience_not_reached"


# --- garbage collection


def collecting(ranks: int, *, together: bool, count: int = 200) -> dict[str, Table]:
    """Make steps of 0.2 s, on each rank with a pause of 20 ms each 100 steps."""
    phase = np.zeros(ranks) if together else np.random.default_rng(19).integers(0, 100, ranks)
    parts = []
    for rank in range(ranks):
        at = np.flatnonzero(np.arange(count) % 100 == phase[rank])
        parts.append(spans("gc", at * 0.2 + 0.1, 0.02, rank=rank, step=at, value=2))
    one = steps([0.2] * count)
    all_ = Table({n: np.tile(c, ranks) for n, c in one.columns.items()})
    rank_ = np.repeat(np.arange(ranks, dtype=np.int32), count)
    return {"steps": Table({**all_.columns, "rank": rank_}), "spans": Table.concat(parts)}


def test_p19_unsynchronised_collection_is_critical():
    (issue,) = found(GCPause(min_lost_s=1), job=WARM, **collecting(512, together=False))
    assert issue.evidence["cost_pct"] == pytest.approx(10, abs=1)
    assert issue.evidence["own_pct"] == pytest.approx(0.1)
    assert (issue.code, issue.severity) == ("unsynchronised", "critical")


def test_p19_collection_of_all_ranks_together_costs_nothing():
    assert found(GCPause(min_lost_s=0), job=WARM, **collecting(512, together=True)) == []


def test_short_pauses_in_tiny_steps_are_no_news():
    table = steps([0.0001] * 20_000)
    pauses = spans("gc", np.arange(20) * 0.1, 0.001, step=np.arange(20) * 1000, value=0)
    assert found(GCPause(), job=WARM, steps=table, spans=pauses) == []


@pytest.mark.parametrize(
    ("pause", "count", "severity"),
    [(0.4, 300, None), (0.6, 300, "warning"), (3, 300, "critical"), (3, 6000, "info")],
)
def test_one_long_pause(pause, count, severity):
    table = steps([0.2] * count)
    issues = found(GCPause(), job=WARM, steps=table, spans=spans("gc", np.array([5.0]), pause, step=25))
    assert [i.severity for i in issues if i.code == "pause"] == ([severity] if severity else [])


# --- compilation


def compiling(at: list[int], *, count: int = 600, spent: float = 2.0) -> Table:
    compile_ = np.zeros(count, dtype=np.int64)
    compile_[at] = round(spent * SECOND)
    table = steps(0.5 + compile_ / SECOND)
    return Table({**table.columns, "compile": compile_})


@pytest.mark.parametrize(
    ("at", "severity"),
    [
        ([0, 5, 19], None),
        ([300], "info"),
        (list(range(100, 160, 10)), "warning"),
        (list(range(100, 500, 15)), "critical"),
    ],
)
def test_recompilation_after_warmup(at, severity):
    issues = found(RecompilationStorm(), steps=compiling(at))
    assert [i.severity for i in issues] == ([severity] if severity else [])


def test_a_resumed_training_may_compile_again():
    first, second = compiling([0], count=100), compiling([0, 1, 2, 3, 4, 5], count=100)
    later = Table({**second.columns, "time": second["time"] + HOUR})
    assert found(RecompilationStorm(), steps=Table.concat([first, later])) == []


# --- evaluation


@pytest.mark.parametrize(("spent", "severity"), [(5, None), (20, "info"), (50, "warning"), (120, "critical")])
def test_evaluation_by_its_share_of_whole_cycles(spent, severity):
    issues = found(EvalOverhead(), job=WARM, steps=every(100, 500, 1.0, spent, "eval"))
    assert [i.severity for i in issues] == ([severity] if severity else [])


def test_an_evaluation_before_training_does_not_count():
    issues, window = look(EvalOverhead(), job=WARM, steps=every(100, 60, 1.0, 600, "eval", offset=99))
    assert issues == []
    assert window.lack.reason == "too_few_points"


# --- between steps


def test_code_between_steps_that_nobody_named():
    table = steps([0.1] * 1000, forward=0.4, backward=0.35, optimizer=0.05)
    (issue,) = found(BetweenStepOverhead(), job=WARM, steps=table)
    assert issue.severity == "warning"
    assert issue.evidence["other_pct"] == pytest.approx(20)
    busy = steps([0.1] * 1000, forward=0.5, backward=0.4, optimizer=0.08)
    assert found(BetweenStepOverhead(), job=WARM, steps=busy) == []


def test_gaps_between_marked_steps():
    table = steps([0.1] * 400, forward=0.5, backward=0.5)
    apart = Table({**table.columns, "time": table["time"] + np.arange(400) * round(0.1 * SECOND)})
    (issue,) = found(BetweenStepOverhead(), job=WARM, steps=apart)
    assert (issue.severity, issue.evidence["gap_pct"]) == ("critical", pytest.approx(50, abs=1))


def test_steps_whose_inside_is_unknown_and_steps_of_a_tenth_of_a_millisecond_are_left_alone():
    assert found(BetweenStepOverhead(), job=WARM, steps=steps([0.1] * 1000)) == []
    tiny = steps([0.0001] * 2000, forward=0.3, backward=0.3)
    assert found(BetweenStepOverhead(), job=WARM, steps=tiny) == []
    assert [i.severity for i in found(BetweenStepOverhead(), job=WARM, steps=tiny, events=late(300))] == [
        "info"
    ]


def late(seconds: float) -> Table:
    """Make an event so many seconds after the start, so that a job has lasted so long."""
    return Table.of("events", [{"time": START + round(seconds * SECOND), "kind": "signal"}])


# --- copies to the device


def copies(share: float, *, size: float, count: int = 400) -> dict[str, Table]:
    table = steps([0.5] * count, h2d=share, forward=0.9 - share)
    return {"steps": table, "spans": spans("h2d", np.arange(count) * 0.5, 0.5 * share, value=size)}


def test_copies_that_take_as_long_as_their_bytes():
    (issue,) = found(H2DBound(), job=WARM, **copies(0.3, size=450e6))
    assert issue.severity == "critical"
    assert issue.evidence["share_pct"] == pytest.approx(30)


def test_a_copy_that_waits_for_the_gpu_is_not_blamed():
    assert found(H2DBound(), job=WARM, **copies(0.8, size=1e6)) == []
    assert found(H2DBound(), job=WARM, **copies(0.3, size=np.nan)) == []


def test_in_a_trace_only_copies_that_no_kernel_hides_count():
    table = steps([1.0] * 60)
    at = START + np.arange(60) * SECOND
    kernels = Table.of(
        "kernels", [{"time": t, "duration": 600_000_000, "rank": 0, "step": 0} for t in at.tolist()]
    )

    def judged(offset: int) -> list[str]:
        rows = [{"time": t + offset, "duration": 300_000_000, "rank": 0, "kind": "h2d"} for t in at.tolist()]
        moved = Table.of("memory_operations", rows)
        issues = found(H2DBound(), job=WARM, steps=table, kernels=kernels, memory_operations=moved)
        return [i.severity for i in issues]

    assert judged(100_000_000) == []
    assert judged(650_000_000) == ["critical"]


# --- holter itself, and the first step


def agent(cpu: float, busy: float) -> Table:
    values = {("agent.cpu", ""): [cpu] * 600, ("cpu.util", ""): [busy] * 600}
    return samples(values, interval_s=0.5)


def test_the_agent_takes_cpu_that_training_needs():
    job = Job(start=START, nodes=NODES)
    (issue,) = found(ObserverOverhead(), job=job, samples=agent(20, 95))
    assert (issue.severity, issue.node, issue.evidence["share_pct"]) == ("warning", "n0", pytest.approx(5))
    (idle,) = found(ObserverOverhead(), job=job, samples=agent(20, 30))
    assert idle.severity == "info"
    assert found(ObserverOverhead(), job=job, samples=agent(3, 95)) == []


def test_the_recorder_takes_time_of_the_training_thread():
    def end(cost_s: float) -> Table:
        row = {"time": START + 200 * SECOND, "kind": "end", "detail": json.dumps({"cost_ns": cost_s * 1e9})}
        return Table.of("events", [{"rank": 0, **row}])

    (issue,) = found(ObserverOverhead(), job=WARM, events=end(20))
    assert (issue.severity, issue.code) == ("critical", "recorder")
    assert found(ObserverOverhead(), job=WARM, events=end(0.5)) == []


def test_a_first_step_of_minutes_is_a_note_told_once():
    table = Table.concat([steps([120.0]), steps([0.5] * 60, first=1, start=START + 120 * SECOND)])
    rule = FirstStepSlow()
    state: dict = {}
    issues, _ = look(rule, job=WARM, state=state, steps=table)
    assert [i.severity for i in issues] == ["info"]
    assert look(rule, job=WARM, state=state, steps=table)[0] == []
    short = Table.concat([steps([30.0]), steps([0.01] * 60, first=1, start=START + 30 * SECOND)])
    assert found(rule, job=WARM, steps=short) == []


# --- however the data come


@pytest.mark.parametrize(
    ("rule", "tables"),
    [
        (GCPause(min_lost_s=0), collecting(8, together=False)),
        (CheckpointStall(), {"steps": every(100, 1000, 1.0, 6, "checkpoint")}),
        (RecompilationStorm(), {"steps": compiling(list(range(100, 500, 15)))}),
        (EvalOverhead(), {"steps": every(100, 500, 1.0, 50, "eval")}),
        (H2DBound(), copies(0.3, size=450e6)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Rule) else "",
)
def test_the_last_finding_does_not_depend_on_how_windows_are_cut(rule, tables):
    end = max(int((t["time"] + t["duration"]).max()) for t in tables.values())

    def last(looks: int) -> list[tuple]:
        state: dict = {}
        edges = np.linspace(START - 1, end, looks + 1).astype(np.int64).tolist()
        issues = []
        for since, until in itertools.pairwise(edges):
            window = Window.of(rule.lookback, job=WARM, state=state, start=since, end=until, **tables)
            issues = list(rule.evaluate(window))
            state = json.loads(json.dumps(window.state))
        return [(i.key, i.severity, i.evidence) for i in issues]

    assert last(1) == last(7) == last(23)
    assert last(1)
