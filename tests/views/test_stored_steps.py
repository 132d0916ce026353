"""Steps of a long job: the same as those in memory, whatever is asked of them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cli.conftest import told

from holter.analysis.steps.steps import steps as build_steps
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views import stored_steps, tables
from holter.views.document.description import describe
from holter.views.stored_steps import StoredSteps


@pytest.fixture
def folder(tmp_path):
    """A job whose steps are in the store."""
    folder, story = told("before", str(tmp_path), ranks=2, cores=2)
    steps = build_steps(story.spans)
    for node in story.nodes:
        writer = Writer(folder, node)
        writer.append("steps", steps.where(steps["node"] == node).columns)
        writer.close()
    return folder


def test_a_long_job_is_described_as_any_other(folder, monkeypatch):
    now = 2_000_000_000_000_000_000
    whole = describe(Trial(folder), now_ns=now)
    monkeypatch.setattr(stored_steps, "LONG", 100)
    assert isinstance(tables.steps_of(Trial(folder)), StoredSteps)
    assert describe(Trial(folder), now_ns=now) == whole


def test_parts_of_some_steps_are_those_of_these_steps(folder):
    whole = Trial(folder).table("steps")
    slow = whole["duration"] > np.quantile(whole["duration"], 0.95)
    for chosen in (slow, np.flatnonzero(slow)[::-1], slice(3, 40), ~slow, slice(0, 0)):
        steps = StoredSteps(Trial(folder))
        twice = steps.where(steps["rank"] >= 0).where(chosen)
        for part in BREAKDOWN:
            assert twice[part].tolist() == whole[part][chosen].tolist()
    steps = StoredSteps(Trial(folder))
    for mask in (~slow, slow):
        assert steps.totals(BREAKDOWN, mask) == whole.totals(BREAKDOWN, mask)


def test_steps_that_come_meanwhile_change_nothing(folder):
    whole, steps = Trial(folder).table("steps"), StoredSteps(Trial(folder))
    rows = whole.where(slice(-5, None)).columns
    newer = rows | {"time": rows["time"] + 10**9, "forward": rows["forward"] + 9}
    followed, expected = steps.followed_by(Table(newer)), Table.concat([whole, Table(newer)])
    writer = Writer(folder, "node-0")
    more = {name: column for name, column in newer.items() if name != "node"}
    writer.append("steps", more)
    writer.flush()
    check(followed, expected)
    # A rank that is late stores a step from before the newest one.
    writer.append("steps", more | {"time": rows["time"] - 1})
    writer.close()
    check(steps, whole)
    check(followed, expected)
    check(followed.followed_by(Table(newer)), Table.concat([expected, Table(newer)]))


def check(steps, expected):
    slow = expected["duration"] > np.quantile(expected["duration"], 0.95)
    slow[-3:] = True
    assert steps.where(slow)["forward"].tolist() == expected["forward"][slow].tolist()
    assert steps.totals(BREAKDOWN, ~slow) == expected.totals(BREAKDOWN, ~slow)
    assert steps["forward"].tolist() == expected["forward"].tolist()
