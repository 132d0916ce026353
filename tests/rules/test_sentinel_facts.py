"""Rules about what ranks exchange and receive, and about labels, on made-up facts of the sentinel."""

from __future__ import annotations

import json
import random
from array import array
from base64 import b64encode
from typing import Any

import pytest
from tests.rules.tables import START, codes, judged

from holter.rules import Issue, Rule
from holter.rules.learning.evaluation_in_train_mode import EvaluationInTrainMode
from holter.rules.learning.gradients_not_exchanged import GradientsNotExchanged
from holter.rules.learning.repeated_batches import RepeatedBatches
from holter.rules.learning.replicas_differ import ReplicasDiffer
from holter.rules.learning.unsuitable_inputs import UnsuitableInputs
from holter.rules.learning.unsuitable_labels import UnsuitableLabels
from holter.schema.table import Table

WATCHED = [0, 1, 2, 4, 8, 16, 32, 64, 100, 200]
NAMES = ["a.weight", "b.weight"]


def rows(details: list[tuple[int, dict[str, Any]]]) -> Table:
    """Make events of (rank, detail)."""
    common = {"kind": "sentinel", "name": "", "node": "n0"}
    return Table.of(
        "events",
        [
            {**common, "time": START + i, "rank": rank, "detail": json.dumps(detail)}
            for i, (rank, detail) in enumerate(details)
        ],
    )


def fact(step: int, **other: Any) -> dict[str, Any]:
    values = other.pop("values", [1, 2])
    return {
        "step": step,
        "names": NAMES,
        "prints": b64encode(array("I", values).tobytes()).decode(),
        "constant": "00",
        "optimizers": [{"lr": 0.1}],
        "world": 1,
        "batches": [],
        **other,
    }


def of_ranks(steps: list[int], **by_rank: Any) -> Table:
    """Make facts of two ranks; functions give what depends on rank and step."""
    exchange = {"world": 2, "ddp": False, "ddp_ranks": None, "unwrapped": False}
    exchange |= {"reductions": 0, "exchanges": 0}
    return rows(
        [
            (
                rank,
                fact(step, **exchange | {key: one(rank, step) for key, one in by_rank.items()}),
            )
            for step in steps
            for rank in range(2)
        ]
    )


def ask(rule: Rule, table: Table) -> list[Issue]:
    return judged(rule, {"events": table})


def drifted(rank: int, step: int) -> list[int]:
    return [step, step + rank * (step > 0)]


def test_ranks_that_average_their_models_now_and_then_are_left_alone():
    for every, exchanges in ((8, 0), (16, 0), (64, 4)):
        table = of_ranks(
            WATCHED,
            values=drifted,
            reductions=lambda _, step, every=every: (step + 1) // every,
            exchanges=lambda _, step, first=exchanges, every=every: first + (step + 1) // every,
        )
        assert not ask(ReplicasDiffer(), table)
        assert not ask(GradientsNotExchanged(), table)


def test_ranks_that_never_exchange_anything_are_found():
    (one,) = ask(ReplicasDiffer(), of_ranks(WATCHED, values=drifted))
    assert one.step_end == 16
    (one,) = ask(GradientsNotExchanged(), of_ranks(WATCHED, values=lambda rank, step: [rank, step]))
    assert one.step_end == 16
    (one,) = ask(GradientsNotExchanged(), of_ranks(WATCHED))
    assert one.step_end == 2
    table = of_ranks(WATCHED, exchanges=lambda *_: 2)
    assert [one.step_end for one in ask(GradientsNotExchanged(), table)] == [100]


@pytest.mark.parametrize(
    "other",
    [
        {"sharded": lambda *_: True},
        {"names": lambda rank, _: [f"layer{rank}.weight", "b.weight"]},
        {"optimizers": lambda rank, _: [{"lr": 0.1 * (1 + rank)}]},
        {"ddp": lambda *_: True},
        {"reductions": lambda _, step: step + 1},
    ],
    ids=["shards", "pipeline", "searched rates", "ddp", "reduced by hand"],
)
def test_ranks_that_need_no_exchange_are_left_alone(other: dict[str, Any]):
    assert not ask(GradientsNotExchanged(), of_ranks(WATCHED, **other))


def batches(rank: int, step: int) -> list[list[int]]:
    return [[0, step, 1000 + step]]


def test_only_ranks_of_one_group_should_have_different_batches():
    whole = {"ddp": lambda *_: True, "ddp_ranks": lambda *_: 2}
    assert codes(ask(RepeatedBatches(), of_ranks(WATCHED, batches=batches, **whole))) == [
        ("ranks", "warning")
    ]
    part = whole | {"ddp_ranks": lambda *_: 1}
    assert not ask(RepeatedBatches(), of_ranks(WATCHED, batches=batches, **part))
    one = of_ranks(WATCHED, batches=lambda _, step: [[0, step, 7]], **whole)
    assert {severity for _, severity in codes(ask(RepeatedBatches(), one))} == {"info"}


def test_the_same_data_in_each_epoch_is_healthy():
    def epochs(_: int, step: int) -> list[list[int]]:
        return [[0, step, at] + [1] * (at == 0) for _ in range(2) for at in range(4)]

    def endless(_: int, step: int) -> list[list[int]]:
        return [one[:3] for one in epochs(0, step)]

    alone = [(0, fact(step, batches=epochs(0, step))) for step in WATCHED]
    assert not ask(RepeatedBatches(), rows(alone))
    again = [(0, fact(step, batches=endless(0, step))) for step in WATCHED]
    assert codes(ask(RepeatedBatches(), rows(again))) == [("loader", "warning")]


def classified(draw: Any, *, classes: int = 4, after: tuple[str, ...] = ("LogSoftmax", "Addmm")) -> Table:
    """Make facts with 32 labels a step, of the classes that `draw(step)` returns."""
    details = []
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
        details.append((0, fact(step, labels=labels, inputs=[{"shape": [32, 8]}])))
    return rows(details)


def test_sorted_and_constant_labels_are_found():
    assert codes(ask(UnsuitableLabels(), classified(lambda step: step % 3))) == [("sorted", "warning")]
    table = classified(lambda step: 2)
    assert codes(ask(UnsuitableLabels(), table)) == [("constant", "info"), ("constant", "warning")]


def test_labels_of_other_tasks_are_left_alone():
    drawing = random.Random(0)
    for table in (
        classified(lambda _: drawing.randrange(4)),
        classified(lambda _: int(drawing.random() < 0.01)),
        classified(lambda step: 0, after=("LogSoftmax", "Div", "Cat")),
        classified(lambda step: [0, 0, 1][drawing.randrange(3)] + 4 * (step % 2), classes=8),
    ):
        assert not ask(UnsuitableLabels(), table)
    assert codes(ask(UnsuitableLabels(), classified(lambda _: 0, classes=2))) == [("constant", "info")]


def described(**other: Any) -> Table:
    one = {"model": "Net", "layer": "Linear", "shape": [8, 16], "sampled": 128, "nan": False}
    one |= {"nonfinite": 0, "constant": False, "whole": False, "low": -2, "high": 2, "mean": 0, "std": 1}
    finite = other.pop("finite", True)
    return rows([(0, fact(step, inputs=[one | other], finite_loss=finite)) for step in WATCHED])


def test_inputs_are_judged_by_what_the_first_layer_is():
    pixels = {"low": 0, "high": 255, "mean": 120, "std": 60}
    assert codes(ask(UnsuitableInputs(), described(layer="Conv2d", **pixels))) == [("pixels", "warning")]
    assert codes(ask(UnsuitableInputs(), described(whole=True, **pixels))) == [("pixels", "warning")]
    assert codes(ask(UnsuitableInputs(), described(mean=3000.0))) == [("scale", "info")]
    assert not ask(UnsuitableInputs(), described(layer="BatchNorm2d", **pixels))
    assert codes(ask(UnsuitableInputs(), described(nan=True))) == [("nan", "info")]
    assert codes(ask(UnsuitableInputs(), described(nan=True, finite=False))) == [("nan", "warning")]
    constant = {"constant": True, "low": 1, "high": 1, "mean": 1, "std": 0}
    assert codes(ask(UnsuitableInputs(), described(**constant))) == [("constant", "warning")]
    assert not ask(UnsuitableInputs(), described(shape=[8, 1], **constant))


def passed(step: int, **other: Any) -> tuple[int, dict[str, Any]]:
    one = {"model": "Net", "dropout": 1, "batch_norm": 0, "averages": False, "step": step, "place": "t.py:1"}
    return 0, {"evaluation": one | {"loss": False, "calls": 1} | other}


def test_a_pass_in_training_mode_is_an_evaluation_unless_the_model_also_evaluates():
    assert codes(ask(EvaluationInTrainMode(), rows([passed(5)]))) == [("Net", "warning")]
    also = (0, {"evaluated": {"model": "Net", "step": 6}})
    assert not ask(EvaluationInTrainMode(), rows([passed(5), also]))
    assert not ask(EvaluationInTrainMode(), rows([passed(5, averages=True)]))
    assert codes(ask(EvaluationInTrainMode(), rows([passed(5, loss=True, calls=9)]))) == [
        ("repeated", "info")
    ]
    assert codes(ask(EvaluationInTrainMode(), rows([passed(5, loss=True), also]))) == [("Net", "warning")]
