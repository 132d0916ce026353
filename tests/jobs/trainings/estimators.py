"""Fits estimators of scikit-learn in one of several ways; writes what it did to truth.json."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

random = np.random.default_rng(0)
TABLE = random.normal(size=(3000, 12))
LABELS = (TABLE[:, 0] + TABLE[:, 1] * TABLE[:, 2] + 0.3 * random.normal(size=3000) > 0).astype(int)
CLASSES = np.digitize(TABLE[:, 0] + TABLE[:, 1] * TABLE[:, 2], (-0.5, 0.5))
truth: dict[str, Any] = {"numbers": {}, "took": {}}
made: list[Any] = []
"""What must be the same without holter."""


def perceptron() -> int:
    """A minibatch is a step; the loss is that of an epoch."""
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier(hidden_layer_sizes=(16,), batch_size=100, max_iter=4, random_state=0).fit(
        TABLE[:1000], LABELS[:1000]
    )
    truth["numbers"]["loss"] = model.loss_
    made.extend([*model.coefs_, *model.intercepts_])
    return 40


def stopped_perceptron() -> int:
    """Early stopping evaluates after each epoch."""
    from sklearn.neural_network import MLPRegressor

    model = MLPRegressor(
        hidden_layer_sizes=(8,), batch_size=100, max_iter=5, early_stopping=True, random_state=0
    )
    model.fit(TABLE[:1000], LABELS[:1000])
    truth["numbers"] |= {"loss": model.loss_, "validation-score": model.validation_scores_[-1]}
    made.extend(model.coefs_)
    return 9 * model.n_iter_


def perceptron_in_c() -> int:
    """The solver L-BFGS has its loop in SciPy."""
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier(hidden_layer_sizes=(8,), solver="lbfgs", max_iter=20, random_state=0).fit(
        TABLE, LABELS
    )
    made.extend(model.coefs_)
    return 1


def boosting() -> int:
    """A round is a step."""
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(n_estimators=20, max_depth=2, random_state=0).fit(TABLE, LABELS)
    truth["numbers"]["loss"] = model.train_score_[-1]
    made.append(model.predict_proba(TABLE))
    return 20


def histograms() -> int:
    """A round has one tree for each class; it ends with the score of early stopping."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(max_iter=15, early_stopping=True, random_state=0)
    model.fit(TABLE, CLASSES)
    truth["numbers"] |= {
        "train-score": model.train_score_[-1],
        "validation-score": model.validation_score_[-1],
    }
    made.append(model.predict_proba(TABLE))
    return int(model.n_iter_)


def partial() -> int:
    """A loop of `partial_fit`, with a score in each step."""
    from sklearn.linear_model import SGDClassifier

    model, took = SGDClassifier(random_state=0), {"compute": 0.0, "eval": 0.0}
    for at in range(40):
        rows = slice(50 * at, 50 * at + 500)
        began = time.perf_counter()
        model.partial_fit(TABLE[rows], LABELS[rows], classes=[0, 1])
        fitted = time.perf_counter()
        model.score(TABLE, LABELS)
        if at:  # the first fit loads the session
            took["compute"] += fitted - began
            took["eval"] += time.perf_counter() - fitted
    truth["took"] = took
    made.append(model.coef_)
    return 40


def slow_stream() -> int:
    """A loop of `partial_fit` that takes its batches from a slow generator."""
    from sklearn.linear_model import SGDClassifier

    def stream() -> Any:
        for at in range(40):
            time.sleep(0.03)
            yield slice(50 * at, 50 * at + 500)

    model = SGDClassifier(random_state=0)
    for rows in stream():
        model.partial_fit(TABLE[rows], LABELS[rows], classes=[0, 1])
    made.append(model.coef_)
    return 40


def search() -> int:
    """Each fit of a grid search is a step: three candidates, three folds, and the best on all data."""
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV

    found = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0]}, cv=3).fit(TABLE, LABELS)
    made.append(found.best_estimator_.coef_)
    return 10


def search_in_processes() -> int:
    """The fits run in children, which holter does not count."""
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV

    found = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0]}, cv=3, n_jobs=2).fit(TABLE, LABELS)
    made.append(found.best_estimator_.coef_)
    return 1


def folds() -> int:
    """Each fit of a cross-validation is a step, though the estimator has iterations."""
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.model_selection import cross_val_score

    model = GradientBoostingClassifier(n_estimators=5, random_state=0)
    made.append(cross_val_score(model, TABLE, LABELS, cv=4))
    return 4


def pipeline() -> int:
    """The iterations of the last stage are steps."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), HistGradientBoostingRegressor(max_iter=12, random_state=0))
    made.append(model.fit(TABLE, LABELS).predict(TABLE))
    return 12


def forest() -> int:
    """Trees that do not depend on one another have no order: one fit, and its score."""
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(20, random_state=0, n_jobs=2).fit(TABLE, LABELS)
    made.append(model.score(TABLE, LABELS))
    return 1


def in_turn() -> int:
    """Fits of several libraries, as a comparison of models has them, then a loop of `partial_fit`."""
    from lightgbm import LGBMClassifier
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from xgboost import XGBClassifier

    models = [
        LogisticRegression(),
        LGBMClassifier(n_estimators=4, n_jobs=1, verbose=-1),
        make_pipeline(StandardScaler(), XGBClassifier(n_estimators=6, n_jobs=1)),
        LogisticRegression(C=2.0),
    ]
    made.extend(model.fit(TABLE, LABELS).score(TABLE, LABELS) for model in models)
    online = SGDClassifier(random_state=0)
    for _ in range(3):
        online.partial_fit(TABLE, LABELS, classes=[0, 1])
    return 1 + 4 + 6 + 1 + 3


def failing() -> int:
    """A fit that fails costs no later one."""
    from sklearn.linear_model import LogisticRegression, Ridge

    try:
        LogisticRegression().fit(TABLE, LABELS[:5])
    except ValueError as error:
        truth["frames"] = _frames(error)
    made.append(Ridge().fit(TABLE, LABELS).coef_)
    return 1


def _frames(error: BaseException) -> list[str]:
    found, trace = [], error.__traceback__
    while trace is not None:
        found.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return found


if __name__ == "__main__":
    truth["steps"] = globals()[sys.argv[1]]()
    truth["model"] = hashlib.sha256(b"".join(np.asarray(one).tobytes() for one in made)).hexdigest()
    Path("truth.json").write_text(json.dumps(truth))
