"""Selects tensors by collection, role or pattern."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.rules import BadRule, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from holter.schema.table import Table

COLLECTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "all": ("", ("",)),
    "default": ("", ("",)),
    "weights": (r"^(?!gradient).*weight", ("weight", "embedding")),
    "biases": (r"^(?!gradient).*bias", ("bias",)),
    "gradients": (r"^gradient", ("grad",)),
    "losses": (r"[Ll]oss_(?!input).*output|loss._(?!input).*output", ("loss",)),
    "metrics": (r"^[a-zA-Z]+-[a-zA-Z0-9]+$", ("metric:",)),
    "inputs": (r"^$", ("model_input:", "token_ids", "input")),
    "outputs": (r"^$", ("output", "logits", "predictions")),
    "activations": (r"^$", ("act_in:", "act_out:", "input", "output")),
    "layers": (r"^$", ("act_in:", "act_out:", "input", "output")),
    "optimizer_variables": (r"^$", ("opt_state",)),
    "optimizer_state": (r"^$", ("opt_state",)),
    "embeddings": (r"^$", ("embedding",)),
    "hyperparameters": (r"^hyperparameters/", ()),
    "predictions": (r"^predictions$", ("predictions", "logits")),
    "labels": (r"^labels$", ("labels",)),
    "feature_importance": (r"^feature_importance/", ()),
    "average_shap": (r"^average_shap/", ()),
    "full_shap": (r"^full_shap/", ()),
    "trees": (r"^trees/", ()),
}
"""Collection → pattern of names, and roles; a tensor that matches either is a member. Names as in smdebug."""


@lru_cache(maxsize=4096)
def has_role(role: str, wanted: tuple[str, ...]) -> bool:
    """Return whether a role is wanted; a wanted role that is empty or ends in a colon matches as a prefix."""
    return any(role == one or (one[-1:] in ("", ":") and role.startswith(one)) for one in wanted)


def belongs(collection: str, name: str, role: str) -> bool:
    """Return whether a tensor belongs to a collection; an unknown collection is a role of the user."""
    if collection not in COLLECTIONS:
        return role == collection
    pattern, roles = COLLECTIONS[collection]
    return has_role(role, roles) or _found(pattern, name)


def matches(patterns: tuple[str, ...] | None, name: str) -> bool:
    """Return whether any pattern matches anywhere in a name; case counts."""
    return any(_found(pattern, name) for pattern in patterns or ())


def check_patterns(rule: Rule, parameter: str, *patterns: str) -> None:
    """Raise `BadRule` for an invalid pattern in a rule's parameter."""
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            text = f"{parameter}={pattern!r} is not a regular expression: {error}"
            raise BadRule(f"{type(rule).__name__}: {text}") from None


def pairs_of(tensors: Table) -> tuple[list[tuple[str, str]], NDArray[np.int64]]:
    """Return the distinct pairs of name and role, and the index of each row's pair."""
    pairs = list(zip(tensors["name"].tolist(), tensors["role"].tolist(), strict=True))
    codes = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    return list(codes), np.fromiter(map(codes.__getitem__, pairs), np.int64, tensors.rows)


def tested(texts: NDArray[Any], test: Callable[[str], object]) -> NDArray[np.bool_]:
    """Return whether each text passes a test; few texts are distinct."""
    listed = texts.tolist()
    known = {text: bool(test(text)) for text in set(listed)}
    return np.fromiter(map(known.__getitem__, listed), bool, len(listed))


@lru_cache(maxsize=4096)
def _found(pattern: str, name: str) -> bool:
    return re.search(pattern, name) is not None
