"""An evaluation before the training is a part of its first step; a job that only predicts keeps its steps."""

from __future__ import annotations

import numpy as np

from holter.analysis.steps.early_evaluation import with_early_evaluation
from holter.schema.table import Table


def table(*modes: str, first: int = 0, rank: int = 0) -> Table:
    return Table.of(
        "steps",
        [
            {"time": 100 + 10 * at, "duration": 10, "rank": rank, "step": first + at, "mode": mode,
             "forward": 10, "compile": at == 0}
            for at, mode in enumerate(modes)
        ],
    )  # fmt: skip


def test_predictions_before_the_training_are_evaluation_of_its_first_step():
    both = Table.concat([table("predict", "predict", "train", "train", rank=rank) for rank in (0, 1)])
    found = with_early_evaluation(both)
    assert found["step"].tolist() == [2, 3, 2, 3]
    for rank in (0, 1):
        first, second = found.where(found["rank"] == rank).to_rows()
        assert (first["time"], first["duration"], first["eval"], first["forward"]) == (100, 30, 20, 10)
        assert (first["compile"], second["duration"], second["eval"]) == (1, 10, 0)
    assert both["duration"].tolist() == [10] * 8, "the given table stays"


def test_other_predictions_stay_steps():
    for modes in (("predict",) * 3, ("train", "predict"), ("train", "predict", "train")):
        assert with_early_evaluation(table(*modes)).rows == len(modes)
    again = Table.concat([table("train", "train"), table("predict", "train")])
    again["time"][2:] += 1000
    found = with_early_evaluation(again)
    assert found["step"].tolist() == [0, 1, 1]
    np.testing.assert_array_equal(found["eval"], [0, 0, 10])
