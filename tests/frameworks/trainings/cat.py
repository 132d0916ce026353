"""Trains CatBoost in one of several ways; writes what it did to truth.json."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import catboost
import numpy as np

ROUNDS = 40
random = np.random.default_rng(0)
TABLE = random.normal(size=(4000, 12))
LABELS = (TABLE[:, 0] + TABLE[:, 1] * TABLE[:, 2] + 0.3 * random.normal(size=4000) > 0).astype(int)
ASKED: dict[str, Any] = {"iterations": ROUNDS, "thread_count": 1, "random_seed": 0, "verbose": False}
OF_THE_CLOCK = ("model_guid", "train_finish_time")
"""What CatBoost writes into a model beside what it has learned."""
truth: dict[str, Any] = {"steps": ROUNDS, "numbers": {}}


def of(model: Any) -> Any:
    """Return a model as CatBoost exports it, with its parameters and without the time of its training."""
    model.save_model("model.json", format="json")
    told = json.loads(Path("model.json").read_text())
    return {
        **told,
        "model_info": {
            k: v for k, v in told["model_info"].items() if k.rpartition(":")[2] not in OF_THE_CLOCK
        },
    }


def sets() -> tuple[Any, Any]:
    """Return training and validation data."""
    return catboost.Pool(TABLE[:3000], LABELS[:3000]), catboost.Pool(TABLE[3000:], LABELS[3000:])


def classifier() -> Any:
    """The estimator, with an evaluation set."""
    model = catboost.CatBoostClassifier(**ASKED, custom_metric=["AUC"])
    began = time.perf_counter()
    model.fit(TABLE[:3000], LABELS[:3000], eval_set=(TABLE[3000:], LABELS[3000:]))
    truth["took"] = time.perf_counter() - began
    training = json.loads(Path("catboost_info/catboost_training.json").read_text())
    truth["ends"] = [one["passed_time"] for one in training["iterations"]]
    results = model.get_evals_result()
    truth["numbers"] = {
        f"{data}-{name}": values[-1] for data, found in results.items() for name, values in found.items()
    }
    return of(model)


def regressor() -> Any:
    """Another estimator, twice; each training goes on counting."""
    truth["steps"] = 2 * ROUNDS
    made = [catboost.CatBoostRegressor(**ASKED).fit(TABLE, LABELS.astype(float)) for _ in range(2)]
    return [of(model) for model in made]


def function() -> Any:
    """`catboost.train`, and metrics that are computed every tenth round."""
    train, validation = sets()
    asked = {**ASKED, "loss_function": "Logloss", "custom_metric": ["AUC"], "metric_period": 10}
    return of(catboost.train(train, asked, eval_set=validation))


def stopped() -> Any:
    """The user's own callbacks: the first stops the training, so that the second runs once less."""
    calls: list[str] = []

    class Stop:
        def after_iteration(self, info: Any) -> bool:
            calls.append("stop")
            return info.iteration < 12

    class Count:
        def after_iteration(self, info: Any) -> bool:
            calls.append("count")
            return True

    model = catboost.CatBoostClassifier(**ASKED)
    model.fit(TABLE, LABELS, callbacks=[Stop(), Count()])
    truth["steps"] = model.tree_count_
    return [of(model), calls]


def failing() -> Any:
    """A callback of the user fails."""

    class Fail:
        def after_iteration(self, info: Any) -> bool:
            if info.iteration == 3:
                raise ValueError("of the user")
            return True

    truth["steps"] = 3
    try:
        catboost.CatBoostClassifier(**ASKED).fit(TABLE, LABELS, callbacks=[Fail()])
    except Exception as error:
        return [type(error).__name__, "of the user" in str(error)]
    return None


def silent() -> Any:
    """A training that writes no files shows no rounds."""
    truth["steps"] = 1
    return of(catboost.CatBoostRegressor(**ASKED, allow_writing_files=False).fit(TABLE, LABELS))


def folds() -> Any:
    """Cross-validation shows no rounds."""
    truth["steps"] = 1
    return catboost.cv(
        catboost.Pool(TABLE, LABELS),
        {**ASKED, "loss_function": "Logloss"},
        fold_count=3,
        as_pandas=False,
        logging_level="Silent",
    )


class Clock:
    """A callback that takes a while, and notes the rounds by its own clock."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.slept = 0.0

    def after_iteration(self, info: Any) -> bool:
        began = time.perf_counter()
        time.sleep(0.05)
        self.ends.append(time.perf_counter())
        self.slept += self.ends[-1] - began
        return True


def slow_callback() -> Any:
    """A callback that takes more time than the trees, metrics, an evaluation and a saved model."""
    clock = Clock()
    model = catboost.CatBoostClassifier(**ASKED, custom_metric=["AUC"])
    model.fit(TABLE[:3000], LABELS[:3000], eval_set=(TABLE[3000:], LABELS[3000:]), callbacks=[clock])
    truth["callback"], truth["loop"] = clock.slept, clock.ends[-1] - clock.ends[9]
    truth["history"] = model.get_evals_result()
    return of(model)


def data_bound() -> Any:
    """A training that goes on with each portion of the data, evaluates and keeps its model at times."""
    model = None
    asked = {**ASKED, "iterations": 1, "loss_function": "Logloss"}
    for at, (rows, labels) in enumerate(portions()):
        model = catboost.train(catboost.Pool(rows, labels), asked, init_model=model)
        if at in (10, ROUNDS - 1):
            model.eval_metrics(catboost.Pool(TABLE[:99], LABELS[:99]), ["AUC"], thread_count=1)
            model.save_model("model.cbm")
    return of(model)


def portions() -> Iterator[tuple[Any, Any]]:
    """Return the data in portions, each of which takes a while to load."""
    for at in range(ROUNDS):
        time.sleep(0.2)
        rows = slice(at % 3 * 1000, at % 3 * 1000 + 1000)
        yield TABLE[rows], LABELS[rows]


def compute_bound() -> Any:
    """Deep trees of data that are there."""
    return of(catboost.CatBoostClassifier(**ASKED, depth=10).fit(TABLE, LABELS))


if __name__ == "__main__":
    made = globals()[sys.argv[1]]()
    truth["model"] = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()
    Path("truth.json").write_text(json.dumps(truth))
