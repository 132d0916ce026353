"""Records LightGBM: one boosting round is one step, split into growing trees and evaluating.

`train`, `cv` and the scikit-learn estimators all call the methods of `Booster` that are hooked here. Nothing
reports the end of a round, so it ends with the last evaluation before the next one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.trees.rounds import Rounds
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.recorder.session import Session


def attach(session: Session) -> Callable[[], None]:
    """Record LightGBM for `session`; return a function that removes every hook."""
    basic = sys.modules["lightgbm.basic"]
    rounds = Rounds(session, "lightgbm", sys.modules["lightgbm"].__version__)
    rounds.grow(basic.Booster, "update")
    rounds.time(basic.Dataset, "construct", "build Dataset", Phase.DATA_LOADING)

    def log(results: Sequence[tuple[Any, ...]], *_: object, **__: object) -> None:
        for data, metric, value, *_rest in results if rounds.counts else ():
            session.scalar(f"{data}-{metric}", value)

    for function in ("eval_train", "eval_valid"):
        rounds.time(basic.Booster, function, "evaluate", Phase.EVAL)
        rounds.patches.after(basic.Booster, function, log, rounds.breaker)
    return rounds.patches.undo
