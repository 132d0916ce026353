"""UnsuitableLabels: constant, sorted, ignored labels and wrong targets; labels of other tasks are healthy."""

from __future__ import annotations

import random

import pytest
from tests.rules.facts import WATCHED, ask, watched
from tests.rules.tables import codes

from holter.rules import UnsuitableLabels


def classified(draw, *, classes=4, after=("LogSoftmax", "Addmm")):
    """Make facts with 32 labels a step, of the classes that `draw(step)` returns."""
    rows = []
    for step in WATCHED:
        drawn = [draw(step) for _ in range(32)]
        labels = {
            "loss": "NllLoss",
            "shape": [32],
            "classes": classes,
            "sampled": 32,
            "ignored": 0,
            "low": min(drawn),
            "high": max(drawn),
            "after": list(after),
            "most": [[label, drawn.count(label)] for label in sorted(set(drawn))],
        }
        rows.append(watched(step, labels=labels, inputs=[{"shape": [32, 8]}]))
    return rows


def test_sorted_and_constant_labels_are_found():
    assert codes(ask(UnsuitableLabels(), classified(lambda step: step % 3))) == [("sorted", "warning")]
    found = ask(UnsuitableLabels(), classified(lambda step: 2))
    assert codes(found) == [("constant", "info"), ("constant", "warning")]


def test_labels_of_other_tasks_are_left_alone():
    drawing = random.Random(0)
    for rows in (
        classified(lambda _: drawing.randrange(4)),
        classified(lambda _: int(drawing.random() < 0.01)),
        classified(lambda step: 0, after=("LogSoftmax", "Div", "Cat")),
        classified(lambda step: [0, 0, 1][drawing.randrange(3)] + 4 * (step % 2), classes=8),
    ):
        assert not ask(UnsuitableLabels(), rows)
    assert codes(ask(UnsuitableLabels(), classified(lambda _: 0, classes=2))) == [("constant", "info")]


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({"loss": "BinaryCrossEntropy", "low": -1, "high": 1}, ["range"]),
        ({"loss": "BinaryCrossEntropy", "low": 0, "high": 1}, []),
        ({"loss": "NllLoss", "sampled": 0, "ignored": 32, "ignore_index": -100}, ["ignored"]),
        ({"loss": "NllLoss", "ignored": 16, "ignore_index": -100}, []),
    ],
)
def test_targets_out_of_range_and_ignored_labels(labels, found):
    usual = {"sampled": 32, "ignored": 0, "shape": [32]}
    issues = ask(UnsuitableLabels(), [watched(step, labels=usual | labels) for step in WATCHED])
    assert [issue.code for issue in issues] == found
    assert all(issue.step_end == 2 for issue in issues)
