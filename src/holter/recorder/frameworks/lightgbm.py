"""Records LightGBM: one boosting round is one step, split into growing trees and evaluating.

`train`, `cv` and the scikit-learn estimators all call the methods of `Booster` that are hooked here. Nothing
reports the end of a round, so it ends with the last evaluation before the next one, or with the training.
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
    rounds = Rounds(session, "lightgbm", sys.modules["lightgbm"])
    rounds.grow(basic.Booster, "update", continues=_continues)
    rounds.save(basic.Booster, "save_model")
    rounds.time(basic.Dataset, "construct", "build Dataset", Phase.DATA_LOADING)

    def log(results: Sequence[tuple[Any, ...]], *_: object, **__: object) -> None:
        for data, metric, value, *_rest in results if rounds.counts else ():
            session.scalar(f"{data}-{metric}", value)

    for function in ("eval_train", "eval_valid"):
        rounds.time(basic.Booster, function, "evaluate", Phase.EVAL)
        rounds.patches.after(basic.Booster, function, log, rounds.breaker)
    contributions = rounds.contributions()

    def dropping(model: Any) -> None:
        """End the training: `train` drops the data sets of its model last."""
        own = vars(model)
        if not rounds.counts or "train_set" not in own:
            return
        rounds.end_unreported()
        if contributions is not None:
            kept = map(contributions.kept, [*reversed(own.get("valid_sets", ())), own["train_set"]])
            sample = next((one for one in kept if one is not None), None)
            contributions.save(model.feature_name(), lambda: _values(model, sample))
        rounds.pause()

    rounds.patches.before(basic.Booster, "free_dataset", dropping, rounds.breaker)
    if contributions is not None:
        keep = contributions.keep

        def constructing(data: Any) -> None:
            if data._handle is None:  # else the raw rows are gone
                keep(data, data.data)

        rounds.patches.before(basic.Dataset, "construct", constructing, rounds.breaker)
    return rounds.patches.undo


def _continues(model: Any) -> bool:
    """Whether a model begins with the trees of another one: `init_model`."""
    return getattr(model.train_set, "_predictor", None) is not None


def _values(model: Any, sample: Any) -> Any:
    """Return the SHAP values of a sample; None without one and for sparse data, which would be made dense."""
    if sample is None or hasattr(sample, "tocsr"):
        return None
    values = model.predict(sample, pred_contrib=True)
    classes = model.num_model_per_iteration()
    return values if classes == 1 else values.reshape(len(values), classes, -1)
