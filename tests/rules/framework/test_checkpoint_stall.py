"""Tests of the rule CheckpointStall."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.overheads import WARM, every, spans
from tests.rules.tables import found, look

from holter.rules.framework.checkpoint_stall import CheckpointStall
from holter.schema.table import Table

# --- checkpoints


@pytest.mark.parametrize(
    ("blocked", "severity"), [(0.1, None), (3, "info"), (6, "info"), (13, "warning"), (20, "critical")]
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


def test_one_long_checkpoint_is_an_issue_of_its_own():
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
