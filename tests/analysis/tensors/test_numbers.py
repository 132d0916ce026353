"""What became of losses and of other numbers, over ranks and steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from holter.analysis.tensors.numbers import numbers
from holter.analysis.verdict.evidence import counted
from holter.schema.table import Table
from holter.views.wording import number_text


def scalars(*rows: tuple[int, int, str, float], mode: str = "train") -> Table:
    """Make a table of (step, rank, name, value)."""
    step, rank, name, value = zip(*rows, strict=True)
    return Table(
        {
            "time": np.arange(len(rows), dtype=np.int64),
            "rank": np.array(rank, np.int32),
            "step": np.array(step, np.int64),
            "mode": np.array([mode] * len(rows), object),
            "name": np.array(name, object),
            "value": np.array(value, float),
        }
    )


def test_a_loss_is_told_from_its_first_to_its_last_step_as_the_mean_of_ranks():
    table = scalars(
        (0, 0, "loss", 4.0), (0, 1, "loss", 2.0), (1, 0, "loss", 0.5), (1, 1, "loss", 0.5),
        (2, 0, "loss", 1.0), (2, 1, "loss", 2.0),
    )  # fmt: skip
    (found,) = numbers(table)
    assert (found["first"], found["last"], found["least"], found["most"]) == (3.0, 1.5, 0.5, 3.0)
    assert (found["steps"], found["least_step"], found["nonfinite"]) == (3, 1, 0)
    assert number_text(found) == "loss: 3 in step 0, 1.5 in step 2, lowest 0.5 in step 1"


def test_what_is_not_finite_is_counted_and_never_drawn_into_a_mean():
    found = {
        one["name"]: one
        for one in numbers(
            scalars((0, 0, "loss", 1.0), (1, 0, "loss", math.nan), (0, 0, "auc", math.nan), (-1, 0, "x", 1.0))
        )
    }
    assert set(found) == {"loss", "auc"}, "a number without a step has no first one"
    assert (found["loss"]["last"], found["loss"]["nonfinite"]) == (1.0, 1)
    assert found["auc"]["first"] is None
    assert number_text(found["auc"]) == "auc: never a finite number in 1 step"
    assert number_text(found["loss"]).endswith("; 1 not finite")


def test_losses_and_rates_come_first_and_parts_of_a_norm_are_joined():
    rows = [(step, 0, "accuracy", 0.5) for step in range(9)]
    rows += [(0, 0, "lr", 0.1), (5, 0, "lr", 0.01), (3, 0, "val_loss", 2.0)]
    rows += [(0, 0, "grad_norm/shard", 3.0), (0, 1, "grad_norm/shard", 4.0)]
    found = numbers(scalars(*rows))
    assert [one["name"] for one in found] == ["val_loss", "lr", "accuracy", "grad_norm"]
    assert found[-1]["first"] == pytest.approx(5.0)
    assert number_text(found[2]) == "accuracy: 0.5 (constant, 9 steps)"
    assert len(numbers(scalars(*rows), most=2)) == 2


def test_without_numbers_there_is_nothing_to_tell():
    assert numbers(Table.empty("scalars")) == []


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 steps"), (1, "1 step"), (1.0, "1 step"), (1.5, "1.5 steps"), (2_000_000, "2,000,000 steps")],
)
def test_one_of_a_thing_is_said_as_one(count, said):
    assert counted(count, "step") == said
    assert counted(2, "copy or fill", "copies and fills") == "2 copies and fills"
