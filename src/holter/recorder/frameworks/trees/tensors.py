"""Saves labels, predictions, importances and trees of an XGBoost model on request."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

from holter.recorder.tensors import requests
from holter.recorder.tensors.collections import OF_TREES, TensorInfo
from holter.recorder.tensors.explicit import SMALL, ExplicitSaver
from holter.schema.phases import Mode
from holter.schema.tensor_spool import ENV_SAVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holter.recorder.session import Session
    from holter.recorder.tensors.collections import Collection

IMPORTANCES = ("weight", "gain", "cover")
MOST_FEATURES = 1000
"""Features whose importance is saved, at most."""
MOST_SETTINGS = 200
_TREE_COLUMNS = ("Tree", "Node", "Yes", "No")
_TRAIN = Mode.TRAIN.name.lower()


class TreeTensors:
    """Saves what `--save` asks for after a round, under the names that the rules about trees know."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._collections = requests.from_environment(os.environ.get(ENV_SAVE))
        self._models = 0

    def describe(self, model: Any) -> None:
        """Journal the hyperparameters of a model."""
        settings = list(_settings(json.loads(model.save_config())))[:MOST_SETTINGS]
        self._session.journal("hyperparameters", {"model": self._models, "settings": dict(settings)})
        self._models += 1

    def save(self, model: Any, evals: Sequence[tuple[Any, str]] | None) -> None:
        """Save what is due at this step.

        Args:
            model: The `Booster` after this round.
            evals: The evaluation sets, matrix and name. Labels and predictions are those of the last one.
        """
        due = [one for one in self._collections if self._is_due(one)]
        if not due:
            return
        features = (model.feature_names or [f"f{at}" for at in range(model.num_features())])[:MOST_FEATURES]
        for kind in IMPORTANCES:
            names = {feature: f"feature_importance/{kind}/{feature}" for feature in features}
            names = {feature: name for feature, name in names.items() if _wanted(due, name, "custom")}
            scores = model.get_score(importance_type=kind) if names else {}
            for feature, name in names.items():
                score = scores.get(feature, 0.0)
                # A linear model has one for each class.
                self._save(name, score if isinstance(score, int | float) else sum(score), "custom")
        if evals:
            self._save_examples(due, model, evals[-1][0])
        columns = [name for name in _TREE_COLUMNS if _wanted(due, f"trees/{name}", "custom")]
        if columns:
            grown = model[model.num_boosted_rounds() - 1].get_dump(dump_format="json")
            nodes = zip(*_nodes(grown), strict=True)
            for name, values in zip(_TREE_COLUMNS, nodes, strict=True):
                if name in columns:
                    self._save(f"trees/{name}", list(values), "custom")

    def _save_examples(self, due: Sequence[Collection], model: Any, matrix: Any) -> None:
        """Save labels and predictions of evenly spaced rows, so that each element can be stored."""
        wanted = [name for name in ("labels", "predictions") if _wanted(due, name, name)]
        if not wanted:
            return
        predicted = model.predict(matrix)
        every = max(1, -(-predicted.size // SMALL))
        if "labels" in wanted:
            self._save("labels", matrix.get_label()[::every], "labels")
        if "predictions" in wanted:
            self._save("predictions", predicted[::every], "predictions")

    def _save(self, name: str, value: Any, role: str) -> None:
        if self._session.explicit is None:
            self._session.explicit = ExplicitSaver(self._session)
        self._session.explicit.save(name, value, role)

    def _is_due(self, one: Collection) -> bool:
        of_trees = bool(one.include_regex or one.roles) or one.name in OF_TREES
        return of_trees and one.due(_TRAIN, self._session.step, self._session.stride)


def _wanted(due: Sequence[Collection], name: str, role: str) -> bool:
    return any(one.holds(TensorInfo(name, "custom", role)) for one in due)


def _settings(config: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the settings of a model by the last part of their names."""
    if isinstance(config, dict):
        for key, value in config.items():
            yield from _settings(value, str(key))
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
