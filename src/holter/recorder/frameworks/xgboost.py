"""Records XGBoost: one boosting round is one step, split into growing trees and evaluating.

The hooks are on `Booster`, on the matrices and on `CallbackContainer`, which `train`, `cv`, the scikit-learn
estimators and the Dask workers use. The user's list of callbacks stays as it is, because its order matters.
"""

from __future__ import annotations

import sys
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.trees.rounds import Rounds
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.trees.contributions import Contributions
    from holter.recorder.frameworks.trees.tensors import TreeTensors
    from holter.recorder.session import Session

_MATRICES = ("DMatrix", "QuantileDMatrix", "ExtMemQuantileDMatrix")


def attach(session: Session) -> Callable[[], None]:
    """Record XGBoost for `session`; return a function that removes every hook."""
    core, callback = sys.modules["xgboost.core"], sys.modules["xgboost.callback"]
    rounds = Rounds(session, "xgboost", sys.modules["xgboost"])
    rounds.grow(core.Booster, "update", "boost")
    rounds.time(core.Booster, "eval_set", "evaluate", Phase.EVAL)
    rounds.save(core.Booster, "save_model")
    for name in _MATRICES:
        owner = getattr(core, name, None)
        if owner is not None and "__init__" in vars(owner):
            rounds.time(owner, "__init__", f"build {name}", Phase.DATA_LOADING)

    described: weakref.WeakSet[Any] = weakref.WeakSet()
    continued: weakref.WeakSet[Any] = weakref.WeakSet()
    """Models that began with the trees of another one."""
    tensors: TreeTensors | None = None
    contributions = rounds.contributions()
    explained: weakref.ref[Any] | None = None
    """The matrix whose rows get SHAP values."""

    def made(_: object, model: Any, *args: Any, **named: Any) -> None:
        if (named["model_file"] if "model_file" in named else args[2] if len(args) > 2 else None) is not None:
            continued.add(model)

    def before_training(_: object, model: Any, *__: object) -> None:
        nonlocal tensors
        if tensors is None:  # loads its modules here, because many scripts import XGBoost without use
            from holter.recorder.frameworks.trees.tensors import TreeTensors

            tensors = TreeTensors(session)
        rounds.begin(continues=model in continued)

    def after_iteration(result: object, container: Any, model: Any, *args: Any, **named: Any) -> None:
        nonlocal explained
        if not rounds.counts:
            return
        began = perf_counter_ns()
        for data, metrics in container.history.items():
            for metric, values in metrics.items():
                value = values[-1]
                session.scalar(f"{data}-{metric}", value[0] if container.is_cv else value)
        if tensors is not None and not container.is_cv:  # several models, none of which is the result
            if container not in described:
                described.add(container)
                tensors.describe(model)
            evals = named["evals"] if "evals" in named else args[2]
            tensors.save(model, evals)
            if contributions is not None:
                explained = weakref.ref(evals[-1][0] if evals else named.get("dtrain") or args[1])
        session.local.thread_spool.spent(perf_counter_ns() - began)
        rounds.end_round()

    def after_training(model: Any, container: Any, *_: object, **__: object) -> None:
        if contributions is not None and explained is not None and rounds.counts and not container.is_cv:
            names = model.feature_names or [f"f{at}" for at in range(model.num_features())]
            contributions.save(names, lambda: _explain(core, model, explained(), contributions))
        rounds.pause()

    def tell_rank(*_: object, **__: object) -> None:
        """Tell the rank of a worker, as of Dask; the process may have another one in its next training."""
        collective = sys.modules.get("xgboost.collective")
        if collective is not None and collective.is_distributed():
            known = session.sticky.get("rank") or {}
            found = {"rank": collective.get_rank(), "world_size": collective.get_world_size()}
            if found.items() - known.items():
                session.journal("rank", found)

    container, patches = callback.CallbackContainer, rounds.patches
    patches.after(core.Booster, "__init__", made, rounds.breaker)
    patches.before(core.DMatrix, "__init__", tell_rank, rounds.breaker)
    patches.before(container, "before_training", before_training, rounds.breaker)
    patches.before(container, "before_training", tell_rank, rounds.breaker)
    rounds.time(container, "after_iteration", "callbacks", Phase.ANNOTATION)
    patches.after(container, "after_iteration", after_iteration, rounds.breaker)
    patches.after(container, "after_training", after_training, rounds.breaker)
    if contributions is not None:
        keep = contributions.keep

        def built(_: object, matrix: Any, *args: Any, **named: Any) -> None:
            keep(matrix, named["data"] if "data" in named else args[0])

        patches.after(core.QuantileDMatrix, "__init__", built, rounds.breaker)
    return patches.undo


def _explain(core: Any, model: Any, matrix: Any, contributions: Contributions) -> Any:
    """Return the SHAP values of rows of a matrix; None if the matrix is gone or cannot return rows."""
    from holter.recorder.frameworks.trees.contributions import ROWS, spread

    sample = contributions.kept(matrix)
    if sample is not None:
        names, types = model.feature_names, model.feature_types
        matrix = core.DMatrix(sample, feature_names=names, feature_types=types, enable_categorical=True)
    elif matrix is None or isinstance(matrix, core.QuantileDMatrix):
        return None
    elif matrix.num_row() > ROWS:
        matrix = matrix.slice(spread(matrix.num_row()))
    return model.predict(matrix, pred_contribs=True)
