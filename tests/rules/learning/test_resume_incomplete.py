"""ResumeIncomplete tells a training that goes on from one that tunes the weights of another."""

from __future__ import annotations

import pytest
from tests.rules.facts import again, watched

from holter.rules import ResumeIncomplete, check_rule

FOUND = {
    "file": "last.pt", "step": 0, "optimizers_loaded": 0, "entries": 4, "schedule": None, "at": ["epoch", 7],
    "model_loaded": True, "fresh": True, "counter": None, "own": False,
}  # fmt: skip


def told(rows, pieces=1):
    found = check_rule(ResumeIncomplete(), {"events": rows}, pieces=pieces)
    return [(i.code, i.severity) for i in found]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, [("optimizer", "info")]),
        ({"own": True}, [("optimizer", "warning")]),
        ({"own": True, "optimizers_loaded": 1}, []),
        ({"own": True, "model_loaded": False}, []),  # the teacher of a distillation
        ({"own": True, "fresh": False}, []),  # the optimizer goes on
    ],
)
def test_an_optimizer_that_begins_anew(changes, found):
    assert told([watched(step, resumed={**FOUND, **changes}) for step in (0, 1, 2)]) == found


def test_a_note_becomes_a_warning_once_it_saves_such_files():
    rows = [watched(0, resumed=FOUND), watched(1, resumed={**FOUND, "own": True})]
    assert told(rows) == [("optimizer", "warning")]


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_process_that_was_started_again_resumes(pieces):
    rows = [watched(step) for step in (0, 1, 2)]
    assert told([*rows, *again([watched(0, resumed=FOUND)])], pieces) == [("optimizer", "warning")]


@pytest.mark.parametrize(
    ("calls", "since", "found"),
    [(0, 0, [("schedule", "warning")]), (118, 0, []), (120, 0, [])],
)
def test_a_schedule_that_begins_anew(calls, since, found):
    schedule = {"class": "StepLR", "steps": calls, "length": None, "since": since}
    resumed = {**FOUND, "optimizers_loaded": 1, "schedule": 120}
    assert told([watched(0, resumed=resumed, schedules=[schedule])]) == found


def test_a_schedule_of_the_time_before_does_not_count():
    schedules = [
        {"class": "StepLR", "steps": n, "length": None, "since": at} for n, at in ((120, 0), (0, 150))
    ]
    resumed = {**FOUND, "optimizers_loaded": 1, "schedule": 120, "step": 150}
    assert told([watched(151, resumed=resumed, schedules=schedules)]) == [("schedule", "warning")]
