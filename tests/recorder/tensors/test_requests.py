"""What can be asked for, when it is due, and what is said about what cannot."""

from __future__ import annotations

import pytest

from holter.recorder.tensors.collections import Collection, TensorInfo
from holter.recorder.tensors.requests import from_environment, request, requests, to_environment
from holter.recorder.tensors.schedule import NEVER, Schedule, next_due


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        (Schedule(), [0, 500, 1000]),
        (Schedule(1), list(range(1200))),
        (Schedule(100, end=200), [0, 100]),
        (Schedule(100, end=201), [0, 100, 200]),
        (Schedule(100, start=150), [*range(200, 1200, 100)]),
        (Schedule(steps=(3, 7)), [0, 3, 7, 500, 1000]),
        (Schedule(end=0), []),
        (Schedule(end=0, steps=(9,)), [9]),
    ],
)
def test_a_schedule_is_due_as_the_reference_is(schedule, steps):
    assert [step for step in range(1200) if schedule.due(step)] == steps
    step, found = 0, []
    while (step := schedule.next(step)) < 1200:
        found.append(step)
        step += 1
    assert found == steps
    assert Schedule.from_json(schedule.to_json()) == schedule


def test_nothing_is_never_due():
    assert next_due([], 0) == NEVER
    assert next_due([Schedule(10), Schedule(4)], 5) == 8


@pytest.mark.parametrize(
    ("text", "interval", "kept", "regex", "roles"),
    [
        ("gradients", 100, set(), (), ()),
        ("gradients@7", 7, set(), (), ()),
        ("weights@50:histogram,raw", 50, {"histogram", "raw"}, (), ()),
        ("activations@5", 5, {"active"}, (), ()),
        ("/layer\\d+@x:y/@3:shape", 3, {"shape"}, ("layer\\d+@x:y",), ()),
        ("role=act_out:relu@10:values", 10, {"values"}, (), ("act_out:relu",)),
        ("role=labels:values", 100, {"values"}, (), ("labels",)),
    ],
)
def test_a_request_is_read(text, interval, kept, regex, roles):
    found = request(text)
    assert found.schedules["train"].interval == interval
    assert (set(found.kept), found.include_regex, found.roles) == (kept, regex, roles)
    assert from_environment(to_environment([found])) == [found]


def test_modes_and_steps_of_a_request():
    found = request("outputs@10:start=20,end=50,steps=3+4")
    assert [step for step in range(100) if found.due("train", step)] == [3, 4, 20, 30, 40]
    assert found.due("eval", 20)
    only = request("outputs:eval=5")
    assert [only.due(mode, 10) for mode in ("train", "eval")] == [False, True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gradiants@10", "did you mean 'gradients'"),
        ("gradients@0", "interval 0 is not possible"),
        ("gradients@often", "'often' is no number of steps"),
        ("gradients:histogramm", "did you mean 'histogram'"),
        ("/(/@10", "no regular expression"),
        ("role=labls@3", "no role 'labls' (did you mean 'labels'?"),
        ("gradients:end=-1", "no number of steps"),
        ("", "asks for nothing"),
    ],
)
def test_what_cannot_be_read_is_said(text, said):
    with pytest.raises(ValueError, match=said.replace("(", "\\(")):
        request(text)


def test_the_same_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        requests(["weights@10", "weights@20"])


def test_what_belongs_to_a_collection():
    weight, bias = TensorInfo("a.weight", "parameter", "weight"), TensorInfo("a.bias", "parameter", "bias")
    gradient = TensorInfo("gradient/a.weight", "gradient", "grad")
    relu = TensorInfo("r_output_0", "output", "act_out:relu")
    held = {
        name: [each.name for each in (weight, bias, gradient, relu) if request(name).holds(each)]
        for name in ("weights", "biases", "gradients", "activations", "layers", "/^a/", "role=act_out", "all")
    }
    assert held["weights"] == held["/^a/"][:1] == ["a.weight"]
    assert held["biases"] == ["a.bias"]
    assert held["gradients"] == ["gradient/a.weight"]
    assert held["activations"] == held["layers"] == held["role=act_out"] == ["r_output_0"]
    assert len(held["all"]) == 4


def test_a_collection_that_describes_nothing_is_refused():
    with pytest.raises(ValueError, match="describes no tensors"):
        Collection("mine")
