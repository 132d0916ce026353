"""Rules on what makes training stand still: checkpoints, garbage collection, hangs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.overheads import WARM, every, last, spans
from tests.rules.tables import SECOND, START, found, look, samples, steps

from holter.rules import Job, Window
from holter.rules.framework.checkpoint_stall import CheckpointStall
from holter.rules.framework.gc_pause import GCPause
from holter.rules.reliability.no_checkpoint import NoCheckpoint
from holter.rules.reliability.stalled_training import StalledTraining
from holter.schema.table import Table

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


@pytest.mark.parametrize(
    ("rule", "tables"),
    [
        (GCPause(min_lost_s=0), collecting(8, together=False)),
        (CheckpointStall(), {"steps": every(100, 1000, 1.0, 6, "checkpoint")}),
    ],
    ids=["gc", "checkpoint"],
)
def test_the_last_finding_does_not_depend_on_how_windows_are_cut(rule, tables):
    assert last(rule, tables, 1) == last(rule, tables, 7) == last(rule, tables, 23)
    assert last(rule, tables, 1)


@pytest.mark.parametrize(("watts", "spinning"), [(120.0, ["n0/gpu0"]), (380.0, [])])
def test_a_stall_names_gpus_that_are_busy_at_little_power(watts, spinning):
    rule = StalledTraining()
    readings = {("gpu.util", "gpu0"): 100.0, ("gpu.power", "gpu0"): watts, ("gpu.power_limit", "gpu0"): 400.0}
    load = samples({place: [value] * 800 for place, value in readings.items()})
    job = Job(start=START, first_step=START)
    end = START + 400 * SECOND
    window = Window.of(rule.lookback, job=job, end=end, steps=steps([0.3] * 300), samples=load)
    (issue,) = rule.evaluate(window)
    assert issue.evidence["spinning_gpus"] == spinning
