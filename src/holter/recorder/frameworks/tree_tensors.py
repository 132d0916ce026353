"""Saves labels, predictions, importances, trees and hyperparameters of an XGBoost model on request."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

from holter.recorder.tensors import requests
from holter.recorder.tensors.collections import OF_TREES, TensorInfo
from holter.recorder.tensors.explicit import LARGEST, ExplicitSaver
from holter.schema.phases import Mode
from holter.schema.tensor_spool import ENV_SAVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holter.recorder.session import Session

IMPORTANCES = ("weight", "gain", "cover", "total_gain", "total_cover")
MOST_FEATURES = 1000
"""Features whose importance is saved, at most."""
_TRAIN = Mode.TRAIN.name.lower()


class TreeTensors:
    """Saves what `--save` asks for, after a round and under the names that the rules about trees know."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._collections = requests.from_environment(os.environ.get(ENV_SAVE))
        self._told = False

    def save(self, model: Any, evals: Sequence[tuple[Any, str]] | None) -> None:
        """Save what is due at this step.

        Args:
            model: The `Booster` after this round.
            evals: The evaluation sets, matrix and name. Labels and predictions are those of the last one.
        """
        due = [kind for kind in OF_TREES if self._due(kind)]
        if not due:
            return
        if self._session.explicit is None:
            self._session.explicit = ExplicitSaver(self._session)
        save = self._session.explicit.save
        if "hyperparameters" in due and not self._told:
            self._told = True
            config = json.loads(model.save_config())
            self._session.journal("hyperparameters", dict(_numbers_and_words(config)))
        if "feature_importance" in due:
            features = (model.feature_names or [f"f{at}" for at in range(model.num_features())])[
                :MOST_FEATURES
            ]
            for kind in IMPORTANCES:
                scores = model.get_score(importance_type=kind)
                for feature in features:
                    score = scores.get(feature, 0.0)
                    save(
                        f"feature_importance/{kind}/{feature}",
                        score if isinstance(score, float | int) else sum(score),
                        "custom",
                    )
        if evals and {"labels", "predictions"} & set(due):
            matrix = evals[-1][0]
            if matrix.num_row() <= LARGEST:
                self._save_examples(due, model, matrix)
        if "trees" in due:
            last = model[model.num_boosted_rounds() - 1]
            columns = zip(*_nodes(last.get_dump(dump_format="json")), strict=True)
            for name, values in zip(("Tree", "Node", "Yes", "No"), columns, strict=True):
                save(f"trees/{name}", list(values), "custom")

    def _save_examples(self, due: Sequence[str], model: Any, matrix: Any) -> None:
        save = self._session.explicit.save
        if "labels" in due:
            save("labels", matrix.get_label(), "labels")
        if "predictions" in due:
            predicted = model.predict(matrix)
            if predicted.size <= LARGEST:
                save("predictions", predicted, "predictions")

    def _due(self, kind: str) -> bool:
        what, step = TensorInfo(kind, kind, "custom"), self._session.step
        return any(one.holds(what) and one.due(_TRAIN, step) for one in self._collections)


def _numbers_and_words(config: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the settings of a model by the last part of their names; objects are searched."""
    if isinstance(config, dict):
        for key, value in config.items():
            yield from _numbers_and_words(value, str(key))
    elif isinstance(config, str | int | float) and name:
        yield name, str(config)[:200]


def _nodes(trees: Sequence[str]) -> Iterator[tuple[float, float, float, float]]:
    """Yield tree, node and its two children, which are NaN for a leaf."""
    for tree, text in enumerate(trees):
        waiting = [json.loads(text)]
        while waiting:
            node = waiting.pop()
            yield tree, node["nodeid"], node.get("yes", math.nan), node.get("no", math.nan)
            waiting += node.get("children", ())
