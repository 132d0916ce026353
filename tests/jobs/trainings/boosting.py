"""Trains trees in one of several ways; writes what it did, by its own clock, to truth.json."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 40
random = np.random.default_rng(0)
TABLE = random.normal(size=(6000, 12))
LABELS = (TABLE[:, 0] + TABLE[:, 1] * TABLE[:, 2] + 0.3 * random.normal(size=6000) > 0).astype(int)
PARAMETERS = {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "nthread": 1}
took = {"grow": 0.0, "evaluate": 0.0, "load": 0.0, "build": 0.0}
figures: dict[str, Any] = {}


def clocked(owner: Any, method: str, part: str) -> None:
    """Measure a method with a clock of this script."""
    original = getattr(owner, method)

    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            took[part] += time.perf_counter() - began

    setattr(owner, method, timed)


def matrices() -> tuple[Any, Any]:
    """Return training and validation data."""
    import xgboost

    return xgboost.DMatrix(TABLE[:5000], LABELS[:5000]), xgboost.DMatrix(TABLE[5000:], LABELS[5000:])


def explained(values: Any) -> None:
    """Keep what SHAP values of the evaluation set must be; all 1,000 rows of it are explained."""
    size = abs(values)
    while size.ndim > 1:
        size = size.mean(0)
    figures["shap"] = size[:-1].tolist()
    rows = max(16_384 // values[0].size, 1)
    figures["shap_shape"] = [min(rows, len(values)), *values.shape[1:]]


def plain() -> bytes:
    """`train` with two evaluation sets."""
    import xgboost

    data, validation = matrices()
    sets = [(data, "train"), (validation, "validation")]
    model = xgboost.train(PARAMETERS, data, ROUNDS, evals=sets, verbose_eval=False)
    kinds = ("weight", "gain", "cover", "total_gain", "total_cover")
    figures["importance"] = {kind: model.get_score(importance_type=kind) for kind in kinds}
    saved = model.save_raw("ubj")
    explained(model.predict(validation, pred_contribs=True))
    return saved


def shap_of_classes() -> bytes:
    """Three classes, each with SHAP values of its own."""
    import xgboost

    labels = np.digitize(TABLE[:, 0] + TABLE[:, 1] * TABLE[:, 2], (-0.5, 0.5))
    data, validation = (
        xgboost.DMatrix(TABLE[:5000], labels[:5000]),
        xgboost.DMatrix(TABLE[5000:], labels[5000:]),
    )
    asked = {"objective": "multi:softprob", "num_class": 3, "nthread": 1}
    model = xgboost.train(asked, data, ROUNDS, evals=[(validation, "validation")], verbose_eval=False)
    saved = model.save_raw("ubj")
    explained(model.predict(validation, pred_contribs=True))
    return saved


def lightgbm_shap() -> bytes:
    """`lightgbm.train`, which drops its data sets at the end."""
    import lightgbm as library

    data = library.Dataset(TABLE[:5000], LABELS[:5000])
    validation = library.Dataset(TABLE[5000:], LABELS[5000:], reference=data)
    asked = {"objective": "binary", "num_threads": 1, "verbose": -1}
    model = library.train(asked, data, ROUNDS, valid_sets=[validation])
    explained(model.predict(TABLE[5000:], pred_contrib=True))
    return model.model_to_string().encode()


def judged(labels: Any, **parameters: Any) -> bytes:
    """Train on labels; keep what the report must say of the last saved round, 35."""
    import xgboost

    data, validation = (
        xgboost.DMatrix(TABLE[rows], labels[rows]) for rows in (slice(0, 5000), slice(5000, 6000))
    )
    asked = PARAMETERS | {"eval_metric": []} | parameters
    sets = [(data, "train"), (validation, "validation")]
    model = xgboost.train(asked, data, ROUNDS, evals=sets, verbose_eval=False)
    true = labels[5000:]
    guessed = model.predict(validation, iteration_range=(0, 36))
    figures["step"] = 35
    if parameters["objective"] == "reg:squarederror":
        figures["job_type"] = "regression"
    else:
        guessed = guessed.argmax(1) if guessed.ndim == 2 else np.rint(guessed)
        names = sorted(set(true.tolist()))
        counted = [[int(((true == a) & (guessed == b)).sum()) for b in names] for a in names]
        figures["confusion"] = {"labels": names, "rows_are_labels": counted}
    return model.save_raw("ubj")


def binary() -> bytes:
    """Two classes."""
    return judged(LABELS, objective="binary:logistic")


def multiclass() -> bytes:
    """Three classes."""
    labels = np.digitize(TABLE[:, 0] + TABLE[:, 1] * TABLE[:, 2], (-0.5, 0.5))
    return judged(labels, objective="multi:softprob", num_class=3)


def softmax() -> bytes:
    """Three classes, whose predictions are classes."""
    labels = np.digitize(TABLE[:, 0] + TABLE[:, 1] * TABLE[:, 2], (-0.5, 0.5))
    return judged(labels, objective="multi:softmax", num_class=3)


def regression() -> bytes:
    """Numbers."""
    labels = (TABLE[:, 0] + TABLE[:, 1] * TABLE[:, 2]).astype("f4").astype(float)
    return judged(labels, objective="reg:squarederror")


def light_evaluation() -> bytes:
    """`train` with deep trees and a small evaluation set."""
    import xgboost

    data, validation = matrices()
    model = xgboost.train(
        PARAMETERS | {"max_depth": 10}, data, ROUNDS, evals=[(validation, "validation")], verbose_eval=False
    )
    return model.save_raw("ubj")


def stopped() -> bytes:
    """Early stopping, which is a callback of XGBoost; the number of rounds is that of the model."""
    import xgboost

    data, validation = matrices()
    model = xgboost.train(
        PARAMETERS | {"learning_rate": 1.0},
        data,
        500,
        evals=[(validation, "validation")],
        early_stopping_rounds=5,
        verbose_eval=False,
    )
    global ROUNDS
    ROUNDS = model.num_boosted_rounds()
    return model.save_raw("ubj")


def estimator() -> bytes:
    """The estimator of the scikit-learn interface."""
    import xgboost

    model = xgboost.XGBClassifier(n_estimators=ROUNDS, n_jobs=1)
    model.fit(TABLE[:5000], LABELS[:5000], eval_set=[(TABLE[5000:], LABELS[5000:])], verbose=False)
    saved = model.get_booster().save_raw("ubj")
    explained(model.get_booster().predict(xgboost.DMatrix(TABLE[5000:]), pred_contribs=True))
    return saved


def folds() -> bytes:
    """Cross-validation: three models grow in each round."""
    import xgboost

    found = xgboost.cv(PARAMETERS, matrices()[0], ROUNDS, nfold=3, as_pandas=False)
    return json.dumps(found).encode()


def loop() -> bytes:
    """A loop of `update` calls."""
    import xgboost

    data, validation = matrices()
    model = xgboost.Booster(PARAMETERS, [data, validation])
    for at in range(ROUNDS):
        model.update(data, at)
        model.eval_set([(validation, "validation")], at)
    return model.save_raw("ubj")


def threads() -> bytes:
    """Two threads train at once, as workers of Dask do; each waits for the other in each round."""
    import threading

    import xgboost

    both = threading.Barrier(2, timeout=60)
    models: list[bytes] = [b"", b""]

    class Together(xgboost.callback.TrainingCallback):
        def before_training(self, model: Any) -> Any:
            both.wait()
            return model

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            both.wait()
            return False

    def work(at: int) -> None:
        data, validation = matrices()
        asked = PARAMETERS | {"seed": at}
        sets = [(validation, "validation")]
        model = xgboost.train(asked, data, ROUNDS, evals=sets, verbose_eval=False, callbacks=[Together()])
        models[at] = model.save_raw("ubj")

    workers = [threading.Thread(target=work, args=(at,)) for at in (0, 1)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    return b"".join(models)


def threads_in_turn() -> bytes:
    """Loops of `update` in two threads, one after the other."""
    import threading

    import xgboost

    models: list[bytes] = []

    def work() -> None:
        data, _ = matrices()
        model = xgboost.Booster(PARAMETERS, [data])
        for at in range(ROUNDS // 2):
            model.update(data, at)
        models.append(model.save_raw("ubj"))

    for _ in range(2):
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    return b"".join(models)


def marked() -> bytes:
    """The script marks the steps itself, in a callback."""
    import xgboost

    import holter

    class Mark(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            with holter.step():
                return False

    return xgboost.train(PARAMETERS, matrices()[0], ROUNDS, callbacks=[Mark()]).save_raw("ubj")


def slow_callback() -> bytes:
    """A callback that waits after each round."""
    import xgboost

    class Slow(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            time.sleep(0.03)
            return False

    return xgboost.train(PARAMETERS, matrices()[0], ROUNDS, callbacks=[Slow()]).save_raw("ubj")


def lightgbm_slow_callback() -> bytes:
    """A callback that waits after each round."""
    import lightgbm as library

    def dawdle(_: Any) -> None:
        time.sleep(0.03)

    data = library.Dataset(TABLE[:5000], LABELS[:5000])
    asked = {"objective": "binary", "num_threads": 1, "verbose": -1}
    return library.train(asked, data, ROUNDS, callbacks=[dawdle]).model_to_string().encode()


def lightgbm() -> bytes:
    """`lightgbm.train`, and a second training in the same process."""
    import lightgbm as library

    clocked(library.basic.Booster, "update", "grow")
    clocked(library.basic.Booster, "eval_train", "evaluate")
    clocked(library.basic.Booster, "eval_valid", "evaluate")
    asked = {"objective": "binary", "metric": ["binary_logloss", "auc"], "num_threads": 1, "verbose": -1}
    text = ""
    for rounds in (ROUNDS - 10, 10):
        data = library.Dataset(TABLE[:5000], LABELS[:5000])
        validation = library.Dataset(TABLE[5000:], LABELS[5000:], reference=data)
        model = library.train(asked, data, rounds, valid_sets=[data, validation])
        text += model.model_to_string()
    return text.encode()


def lightgbm_folds() -> bytes:
    """`lightgbm.cv`: three models grow in each round."""
    import lightgbm as library

    asked = {"objective": "binary", "num_threads": 1, "verbose": -1}
    found = library.cv(asked, library.Dataset(TABLE, LABELS), ROUNDS, nfold=3)
    return json.dumps(found).encode()


def portions() -> Iterator[tuple[Any, Any]]:
    """Return the data in portions, each of which takes a while to load."""
    for at in range(ROUNDS):
        began = time.perf_counter()
        time.sleep(0.03)
        took["load"] += time.perf_counter() - began
        rows = slice(at % 5 * 1000, at % 5 * 1000 + 1000)
        yield TABLE[rows], LABELS[rows]


def data_bound() -> bytes:
    """A training that goes on with each portion of the data, and keeps its model."""
    import xgboost

    matrices()  # the recorder loads the rest of itself with the first matrix
    clocked(xgboost.DMatrix, "__init__", "build")
    model = None
    for at, (rows, labels) in enumerate(portions()):
        data = xgboost.DMatrix(rows, labels)
        model = xgboost.train(PARAMETERS, data, 1, verbose_eval=False, xgb_model=model)
        if at % 20 == 19:
            model.save_model("model.ubj")
    return model.save_raw("ubj")


def compute_bound() -> bytes:
    """Deep trees of data that are there."""
    import xgboost

    data, _ = matrices()
    return xgboost.train(PARAMETERS | {"max_depth": 9}, data, ROUNDS).save_raw("ubj")


def lightgbm_data_bound() -> bytes:
    """A training that goes on with each portion of the data, and keeps its model."""
    import lightgbm as library

    clocked(library.Dataset, "construct", "build")
    asked = {"objective": "binary", "num_threads": 1, "verbose": -1}
    model = None
    for at, (rows, labels) in enumerate(portions()):
        model = library.train(asked, library.Dataset(rows, labels), 1, init_model=model)
        if at % 20 == 19:
            model.save_model("model.txt")
    return model.model_to_string().encode()


def lightgbm_compute_bound() -> bytes:
    """Large trees of data that are there."""
    import lightgbm as library

    data = library.Dataset(TABLE[:5000], LABELS[:5000])
    asked = {"objective": "binary", "num_threads": 1, "verbose": -1, "num_leaves": 255}
    return library.train(asked, data, ROUNDS).model_to_string().encode()


if __name__ == "__main__":
    if not sys.argv[1].startswith("lightgbm"):
        import xgboost.core

        clocked(xgboost.core.Booster, "update", "grow")
        clocked(xgboost.core.Booster, "eval_set", "evaluate")
    model = globals()[sys.argv[1]]()
    truth = {"steps": ROUNDS, "model": hashlib.sha256(model).hexdigest(), "took": took, "figures": figures}
    Path("truth.json").write_text(json.dumps(truth))
