"""Trainings of one job: attempts of one run, and trainings that are left out."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.tables import steps

from holter.analysis.steps.outliers import outliers
from holter.analysis.steps.trainings import left_out, models, restarted, workers_began
from holter.analysis.verdict.changes import step_changes
from holter.schema.table import Table
from holter.views.wording import trainings_text


def events(*rows):
    """Make table `events` from kinds and details."""
    kinds, details = zip(*rows, strict=True)
    return Table(
        {
            "time": np.arange(len(rows), dtype=np.int64),
            "rank": np.zeros(len(rows), np.int32),
            "kind": np.array(kinds, object),
            "name": np.array([""] * len(rows), object),
            "detail": np.array([json.dumps(one) for one in details], object),
        }
    )


@pytest.mark.parametrize(
    ("runs", "expected"),
    [(["a", "a"], True), (["a", "b"], False), ([None, None], False), ([None, "a"], False)],
)
def test_trainings_of_one_run_are_its_attempts(runs, expected):
    """PyTorch tells a rank once more, without the run; a driver that trains has none."""
    rows = []
    for process, run in enumerate(runs):
        rows.append(("process", {"role": "trainer", "process": process}))
        rows += [("rank", {"rank": 0, "run": one, "process": process}) for one in (run, None) if run]
    rows.append(("process", {"role": "other", "process": 9}))
    found = restarted(events(*rows))
    assert found is expected
    text = trainings_text({"trainings": [30, 48], "restarted": found})
    assert text.startswith(
        "2 attempts of one training" if expected else "2 trainings ran one after the other"
    )
    assert text.endswith(": 30 + 48 steps")


def test_workers_of_ray_begin_with_the_first_that_tells_its_run():
    rows = [
        ("process", {"role": "other", "process": "driver", "wall": 5}),
        *(
            ("process", {"role": "trainer", "process": name, "wall": wall})
            for name, wall in (("a", 40), ("b", 30))
        ),
        *(("rank", {"rank": at, "run": "r", "process": name}) for at, name in enumerate("ab")),
        ("rank", {"rank": 0, "process": "driver"}),
    ]
    assert workers_began(events(*rows)) == 30
    assert workers_began(events(*rows[:3])) is None
    assert workers_began(None) is None


@pytest.mark.parametrize(
    ("again", "expected"), [("torchrun none 7", True), ("torchrun none 8", False), (None, False)]
)
def test_workers_of_torchrun_on_two_nodes(again, expected):
    rows = [
        ("process", {"role": "trainer", "process": f"{at}", "run": run})
        for at, run in enumerate(("torchrun none 7", "torchrun none 99", again, "torchrun none 99"))
    ]
    table = events(*rows)
    nodes = np.array(["n0", "n1", "n0", "n1"], object)
    assert restarted(Table({**table.columns, "node": nodes})) is expected


def test_what_is_left_out_is_counted_once():
    trial = {"kind": "trial of Ray Tune", "recorded": "a"}
    other = ("left_out", {"kind": "training of another thread", "name": "7", "recorded": 8})
    rows = [("left_out", {**trial, "name": name}) for name in ("b", "b", "c")]
    assert left_out(events(*rows, other)) == [
        "1 other training of another thread",
        "2 other trials of Ray Tune",
    ]
    assert left_out(events(("rank", {"rank": 0}))) == []
    assert left_out(None) == []


def trained(*models):
    return events(*(("model", {"step": step, "model": model}) for step, model in models))


def test_another_model_makes_no_slow_steps():
    """A small model trains before a large one and after it, as in a guide of Keras."""
    table = steps([0.001] * 352 + [0.3] * 30 + [3.0] + [0.3] * 44 + [0.001] * 60)
    told = models(trained((0, "A"), (352, "B"), (427, "A")))
    assert told == {0: [(0, "A"), (352, "B"), (427, "A")]}
    (slow,) = outliers(table, models=told)
    assert (slow.step, round(slow.extra_ms)) == (382, 2700)
    assert len(outliers(table)) == 75


def test_the_step_time_of_another_model_is_no_change():
    table = steps([0.001] * 400 + [0.3] * 400)
    assert step_changes(table) != []
    assert step_changes(table, {0: [(0, "A"), (400, "B")]}) == []


def test_a_model_that_trains_again_is_judged_with_its_earlier_steps():
    """A script makes an equal model for each fold; ten steps of the second one are slow."""
    table = steps([0.1] * 90 + [0.5] * 10 + [0.1] * 60)
    told = models(trained((0, "A"), (90, "A")))
    assert {one.step for one in outliers(table, models=told)} == set(range(90, 100))


def test_events_without_a_step_or_a_model_are_left_out():
    assert models(events(("model", {"step": 0}), ("model", {"step": None, "model": "A"}))) == {}
