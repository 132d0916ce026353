"""Tensors and numbers that a script saves itself, while it trains and evaluates, from any thread."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
import torch
from tests.recorder import reading as records
from tests.recorder.tensors.reading import saved
from torch import nn

import holter
from holter.recorder.frameworks.pytorch.tensors import sink
from holter.recorder.tensors import explicit, time_budget
from holter.recorder.tensors.explicit import LARGEST

TRAIN, EVAL = 1, 2


def loop(steps, each, *, evaluate=None):
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        output = model(torch.randn(5, 4))
        output.square().mean().backward()
        each(step, output)
        optimizer.step()
        if evaluate is not None:
            model.eval()
            with torch.no_grad():
                evaluate(step, model(torch.randn(5, 4)))
            model.train()


def logged(training):
    spans = records.only(training.spool).spans("scalar")
    return sorted((s.name, s.step, s.mode, s.value) for s in spans if s.name.startswith("my"))


def test_every_tensor_is_kept_at_its_step_whatever_else_is_due(watch):
    training = watch("gradients@3")
    labels = torch.tensor([2, 0, 1, 1, 2])

    def each(step, output):
        holter.save_tensor("target", labels + step, role="labels")
        holter.save_tensor("guess", output.argmax(1), role="predictions")
        if step % 2:
            holter.save_tensor("router_counts", np.array([step, 0, 7]))
            holter.save_tensor("both", [1.5, 2.5])

    loop(5, each)
    found = training.end()
    assert found.steps("target") == found.steps("guess") == [0, 1, 2, 3, 4]
    assert found.steps("router_counts") == found.steps("both") == [1, 3]
    assert found.steps("gradient/weight") == [0, 3]
    assert found.values[4, "target", "value"] == (labels + 4).tolist()
    assert found.values[3, "router_counts", "value"] == [3, 0, 7]
    assert found.row("target", 0).role == "labels"
    assert found.row("both", 1).collections == ["default"]
    assert found.row("both", 1)["mean"] == 2


def test_a_schedule_that_describes_it_counts(watch):
    training = watch("role=labels@2", "/^mine/@3:histogram", "weights@1")

    def each(step, output):
        holter.save_tensor("target", torch.arange(4), role="labels")
        holter.save_tensor("mine/one", output)

    loop(5, each)
    found = training.end()
    assert found.steps("target") == [0, 2, 4]
    assert found.steps("mine/one") == [0, 3]
    assert found.row("mine/one", 3).collections == ["/^mine/@3:histogram"]
    assert sum(found.values[3, "mine/one", "histogram"]) == 15


def test_modes_and_threads(watch):
    training = watch()

    def each(step, output):
        holter.log(my_loss=step)
        thread = threading.Thread(target=lambda: holter.log(my_thread=step))
        thread.start()
        thread.join()
        with torch.no_grad():  # a metric of training
            holter.log(my_metric=step)

    def evaluate(step, output):
        holter.log(my_accuracy=step)
        holter.log(my_other=step, mode="train", step=17)
        thread = threading.Thread(target=lambda: holter.save_tensor("scores", output))
        thread.start()
        thread.join()

    loop(2, each, evaluate=evaluate)
    found = training.end()
    assert logged(training) == [
        ("my_accuracy", 1, EVAL, 0.0),
        ("my_accuracy", 2, EVAL, 1.0),
        *((name, step, TRAIN, float(step)) for name in ("my_loss", "my_metric") for step in (0, 1)),
        *(("my_other", 17, TRAIN, float(step)) for step in (0, 1)),
        *(("my_thread", step, TRAIN, float(step)) for step in (0, 1)),
    ]
    assert [(row.step, row.mode) for row in found.rows if row.name == "scores"] == [(1, EVAL), (2, EVAL)]


def test_what_is_wrong_is_said_recorded_or_not(watch, capsys):
    with pytest.raises(ValueError, match="did you mean 'labels'"):
        holter.save_tensor("x", torch.ones(2), role="label")
    with pytest.raises(ValueError, match="empty"):
        holter.save_tensor("", torch.ones(2))
    with pytest.raises(ValueError, match="mode 'test' of holter"):
        holter.log(a=1, mode="test")
    holter.save_tensor("x", torch.ones(2))
    training = watch()
    loop(3, lambda step, output: holter.save_tensor("odd", {"a": object()}))
    assert capsys.readouterr().err.count("'odd' cannot be saved as a tensor") == 1
    assert training.end().rows == []


def test_a_tensor_of_20_gigabytes_is_never_copied(watch, capsys):
    training = watch("/big/@1:raw,shape,histogram,exponents,values,prod")
    big = torch.tensor([[1.0], [2.0]]).expand(2, 2_500_000_000)

    def each(step, output):
        holter.save_tensor("big", big)

    loop(2, each)
    found = training.end()
    row = found.row("big", 1)
    assert row["count"] == 5_000_000_000
    assert [row[name] for name in ("min", "max", "mean", "std", "q05", "q95")] == [1, 2, 1.5, 0.5, 1, 2]
    assert found.values[1, "big", "shape"] == [2, 2_500_000_000]
    assert sum(found.values[1, "big", "histogram"]) == sum(found.values[1, "big", "exponents"]) == 5e9
    assert found.values[1, "big", "prod"] == [math.inf]
    assert (1, "big", "value") not in found.values
    assert not list(training.spool.glob("*.safetensors"))
    dropped = training.facts("dropped")
    assert sum(fact.get("raw bytes", 0) for fact in dropped) == 2 * 20_000_000_000
    assert sum(fact.get("saves", 0) for fact in dropped) == 4  # twice whole, twice its values
    said = capsys.readouterr().err
    assert said.count("'big' is not saved whole") == 1
    assert said.count("'big' has 5,000,000,000 elements, too many for: values") == 1


def test_a_tensor_that_takes_too_long_is_given_up(watch, capsys, monkeypatch):
    training = watch()
    pieces = torch.ones(3000)
    training.session.explicit._sink.statistics._size = 1000
    monkeypatch.setattr(sink, "SLAB", 1000)
    monkeypatch.setattr(time_budget, "SLOW_NS", -1)
    monkeypatch.setattr(time_budget, "REST", 10**9)
    monkeypatch.setattr(time_budget, "MOST_NS", 10**18)

    def each(step, output):
        holter.save_tensor("slow", pieces)
        if step == 1:
            monkeypatch.setattr(time_budget, "MOST_NS", -1)
        holter.save_tensor("hopeless", pieces[:2500]) if step else None

    loop(4, each)
    found = training.end()
    assert found.steps("slow") == [0]
    assert found.steps("hopeless") == []
    assert sum(fact.get("saves", 0) for fact in training.facts("dropped")) == 6
    said = capsys.readouterr().err
    assert said.count("'slow' is so large that it is saved every") == 1
    assert said.count("'hopeless' is not saved: its 0.0 GB would hold the training for") == 1


def test_a_save_that_takes_long_is_told_of_once(watch, capsys, monkeypatch):
    monkeypatch.setattr(time_budget, "SLOW_NS", 0)
    watch()
    loop(3, lambda step, output: holter.save_tensor("big", torch.ones(1000)))
    assert capsys.readouterr().err.count("saving 'big' held the training for") == 1


def test_saving_what_was_asked_for_is_told_of_as_well(watch, capsys, monkeypatch):
    monkeypatch.setattr(time_budget, "SLOW_NS", 0)
    training = watch("all@1")
    loop(3, lambda step, output: None)
    training.end()
    assert capsys.readouterr().err.count("saving the tensors of step 0 held the training for") == 1


def test_without_a_framework_then_with_one(start, spool, capsys):
    session = start()
    values = [0.0, -2.5, math.inf, math.nan, 1.0, 4.0]
    holter.save_tensor("plain", np.array(values).reshape(2, 3), role="predictions")
    holter.save_tensor("number", 3)
    holter.save_tensor("empty", [])
    for odd in ([[1], [1, 2]], "text", {"a": 1}, np.zeros(LARGEST + 1, dtype=bool), None):
        holter.save_tensor(f"odd {str(odd)[:9]}", odd)
    assert capsys.readouterr().err.count("cannot be saved as a tensor") == 5
    session.boundary(manual=True)
    session.attach("pytorch")
    loop(1, lambda step, output: holter.save_tensor("plain", torch.tensor(values).reshape(2, 3)))
    session.close()
    assert not records.only(spool).facts("fault")
    found = saved(spool)
    assert {row.name for row in found.rows} == {"plain", "number", "empty"}
    # What Python works out of a list is what torch works out of a tensor.
    mine, its = (found.row("plain", step) for step in (0, 1))
    for name in (
        "count",
        "nan",
        "posinf",
        "neginf",
        "zeros",
        "tiny",
        "min",
        "max",
        "mean",
        "std",
        "abs_mean",
    ):
        assert mine[name] == pytest.approx(its[name]), name
    for name in ("q05", "q50", "q95"):
        assert mine[name] == pytest.approx(its[name]), name
    assert found.values[0, "plain", "shape"] == found.values[1, "plain", "shape"] == [2, 3]
    assert found.values[0, "plain", "value"][:3] == [0.0, -2.5, math.inf]
    assert (mine.mode, its.mode) == (TRAIN, TRAIN)
    assert found.row("empty", 0)["count"] == 0


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0.0, -2.5, math.inf, 3.0, 1e-310], "float64"),
        ([math.nan], "float32"),
        (list(range(50)), "int64"),
        ([True, False, True], "bool"),
        ([2**64 - 1, 0, 2**53 + 1], "uint64"),
        ([], "float64"),
    ],
)
def test_an_array_is_summarized_as_its_list(values, dtype):
    _, doubles = explicit._flat(values)
    counts, statistics = explicit.summary(doubles)
    shape, of_numpy = explicit._flat(np.array(values, dtype))
    found, of_array = explicit.summary_by_numpy(of_numpy)
    assert shape == (len(values),)
    assert of_numpy.tobytes() == doubles.tobytes()
    assert found == counts
    assert of_array == pytest.approx(statistics, nan_ok=True)


def test_large_numbers_give_no_warning(recwarn):
    with np.errstate(all="raise"):
        explicit.summary_by_numpy(np.array([1e308, -1e308]))
    assert not recwarn.list


def test_a_slow_save_of_an_array_counts_in_the_time_budget(start, capsys, monkeypatch):
    monkeypatch.setattr(time_budget, "SLOW_NS", 0)
    start()
    holter.save_tensor("big", np.ones(1000))
    assert capsys.readouterr().err.count("saving 'big' held the training for") == 1
