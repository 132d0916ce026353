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

IMPORTANCES = ("weight", "gain", "cover")
MOST_FEATURES = 1000
"""Features whose importance is saved, at most."""
MOST_SETTINGS = 200
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
        due = [kind for kind in OF_TREES if self._due(kind)]
        if not due:
            return
        if self._session.explicit is None:
            self._session.explicit = ExplicitSaver(self._session)
        save = self._session.explicit.save
        if "feature_importance" in due:
            names = model.feature_names or [f"f{at}" for at in range(model.num_features())]
            for kind in IMPORTANCES:
                scores = model.get_score(importance_type=kind)
                for feature in names[:MOST_FEATURES]:
                    score = scores.get(feature, 0.0)
                    # A linear model has one for each class.
                    total = score if isinstance(score, int | float) else sum(score)
                    save(f"feature_importance/{kind}/{feature}", total, "custom")
        if evals and ("labels" in due or "predictions" in due):
            self._save_examples(due, model, evals[-1][0])
        if "trees" in due:
            grown = model[model.num_boosted_rounds() - 1].get_dump(dump_format="json")
            columns = zip(*_nodes(grown), strict=True)
            for name, values in zip(("Tree", "Node", "Yes", "No"), columns, strict=True):
                save(f"trees/{name}", list(values), "custom")

    def _save_examples(self, due: Sequence[str], model: Any, matrix: Any) -> None:
        """Save labels and predictions of evenly spaced rows, so that each element can be stored."""
        predicted = model.predict(matrix)
        every = max(1, -(-predicted.size // SMALL))
        save = self._session.explicit.save
        if "labels" in due:
            save("labels", matrix.get_label()[::every], "labels")
        if "predictions" in due:
            save("predictions", predicted[::every], "predictions")

    def _due(self, kind: str) -> bool:
        what, step = TensorInfo(kind, kind, "custom"), self._session.step
        return any(one.holds(what) and one.due(_TRAIN, step) for one in self._collections)


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
