"""Callbacks, loggers and annotations have the time that nothing else inside of them has."""

from __future__ import annotations

import numpy as np
import pytest

from holter.analysis.steps.named_work import before_steps, moved, named_work
from holter.analysis.steps.steps import steps as build_steps
from holter.schema.table import Table

MS = 1_000_000


def table(rows):
    """Make table `spans` of one rank from phase, name, begin, end in ms, step and thread."""
    phase, name, begin, end, step, thread = zip(*rows, strict=True)
    count = len(rows)
    return Table(
        {
            "time": np.array(begin, np.int64) * MS,
            "duration": (np.array(end, np.int64) - np.array(begin, np.int64)) * MS,
            "phase": np.array(phase, object),
            "name": np.array(name, object),
            "step": np.array(step, np.int32),
            "thread": np.array(thread, np.int16),
            "rank": np.zeros(count, np.int32),
            "worker": np.full(count, -1, np.int32),
            "mode": np.array(["train"] * count, object),
            "value": np.full(count, np.nan),
        }
    )


def step(number, begin=0):
    """Return the spans of a step of 100 ms that begins at `begin` ms."""
    rows = [
        ("step", "", 0, 100),
        ("data_loading", "next batch", 0, 10),
        ("optimizer", "SGD", 10, 50),
        ("annotation", "callback Norms.on_before_optimizer_step", 20, 25),
        ("forward", "Net", 30, 40),
        ("annotation", "callback Saves.on_train_batch_end", 50, 90),
        ("checkpoint", "torch.save", 55, 75),
        ("annotation", "logger File.log_metrics", 80, 86),
    ]
    return [(phase, name, begin + low, begin + high, number, 0) for phase, name, low, high in rows]


def test_the_time_of_work_is_without_what_lies_in_it():
    spans = table([row for number in range(3) for row in step(number, 1000 + 100 * number)])
    found = {(one.part, one.name): one.pct for one in named_work(spans, build_steps(spans))}
    assert found == {
        ("other", "callback Saves.on_train_batch_end"): pytest.approx(14),
        ("other", "logger File.log_metrics"): pytest.approx(6),
        ("other", "callback Norms.on_before_optimizer_step"): pytest.approx(5),
    }
    parts = moved({"optimizer": 30.0, "other": 20.0, "forward": 50.0}, named_work(spans, build_steps(spans)))
    assert parts == {"optimizer": pytest.approx(25), "other": pytest.approx(25), "forward": 50}


def test_collectives_are_named_without_the_pass_around_them():
    spans = table([
        ("step", "", 0, 100, 0, 0), ("backward", "backward", 10, 60, 0, 0),
        ("communication", "DDP gradients", 40, 60, 0, 0), ("communication", "broadcast", 70, 80, 0, 0),
    ])  # fmt: skip
    found = {(one.part, one.name): one.pct for one in named_work(spans, build_steps(spans))}
    assert found == {("communication", "DDP gradients"): 20, ("communication", "broadcast"): 10}


def test_other_threads_and_other_steps_do_not_count():
    beside = [("annotation", "beside", 10, 90, 0, 1), ("annotation", "small", 99, 100, 2, 0)]
    spans = table([*step(0), *step(1, 100), ("annotation", "late", 200, 300, 2, 0), *beside])
    assert {one.name.split()[0] for one in named_work(spans, build_steps(spans))} == {"callback", "logger"}


def test_work_before_the_first_step_belongs_to_the_start():
    early = [("annotation", "sanity check", 10, 60, 0, 0), ("forward", "Net", 20, 30, 0, 0)]
    spans = table([*early, *step(0, 100)])
    assert before_steps(spans, 100 * MS) == {"sanity check": pytest.approx(0.04)}
    assert named_work(table(step(0)[:2]), build_steps(table(step(0)))) == []
