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

    from holter.recorder.frameworks.trees.tensors import TreeTensors
    from holter.recorder.session import Session

_MATRICES = ("DMatrix", "QuantileDMatrix", "ExtMemQuantileDMatrix")


def attach(session: Session) -> Callable[[], None]:
    """Record XGBoost for `session`; return a function that removes every hook."""
    core, callback = sys.modules["xgboost.core"], sys.modules["xgboost.callback"]
    rounds = Rounds(session, "xgboost", sys.modules["xgboost"].__version__)
    rounds.grow(core.Booster, "update", "boost")
    rounds.time(core.Booster, "eval_set", "evaluate", Phase.EVAL)
    for name in _MATRICES:
        owner = getattr(core, name, None)
        if owner is not None and "__init__" in vars(owner):
            rounds.time(owner, "__init__", f"build {name}", Phase.DATA_LOADING)

    described: weakref.WeakSet[Any] = weakref.WeakSet()
    tensors: TreeTensors | None = None

    def before_training(*_: object, **__: object) -> None:
        nonlocal tensors
        if tensors is None:  # loads its modules here, because many scripts import XGBoost without use
            from holter.recorder.frameworks.trees.tensors import TreeTensors

            tensors = TreeTensors(session)
        rounds.begin()

    def after_iteration(result: object, container: Any, model: Any, *args: Any, **named: Any) -> None:
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
            tensors.save(model, named["evals"] if "evals" in named else args[2])
        session.local.thread_spool.spent(perf_counter_ns() - began)
        rounds.end_round()

    container, patches = callback.CallbackContainer, rounds.patches
    patches.before(container, "before_training", before_training, rounds.breaker)
    rounds.time(container, "after_iteration", "callbacks", Phase.ANNOTATION)
    patches.after(container, "after_iteration", after_iteration, rounds.breaker)
    patches.after(container, "after_training", rounds.finish, rounds.breaker)
    return patches.undo
