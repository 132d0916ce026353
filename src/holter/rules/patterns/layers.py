"""Names and roles of a model's parameters, and the order of its layers."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from holter.rules.patterns.collections import tested
from holter.schema.tables import GRADIENT, PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from holter.rules.engine.window import Window
    from holter.schema.table import Table

EXPERT = re.compile(r"(?i)experts?([^a-z]|$)")
"""Names of parameters that only some samples reach, by design."""
ADAPTER = re.compile(r"(?i)(^|[^a-z])(lora|adapter|ia3|prefix|prompt)")
"""Names of parameters that are trained next to a frozen base."""


def new_kinds(window: Window) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which new rows of table `tensors` are parameters, and which are gradients; computed once."""

    def answer() -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        rows = window.new("tensors")
        gradients = is_gradient(rows)
        return tested(rows["role"], PARAMETERS.__contains__) & ~gradients, gradients

    return window.answered("kinds of tensors", answer)


def is_gradient(rows: Table) -> NDArray[np.bool_]:
    """Return which rows of table `tensors` are gradients of parameters."""
    named = tested(rows["name"], lambda name: name.startswith(GRADIENT))
    return named | tested(rows["role"], "grad".__eq__)


def parameters_of(names: Iterable[str]) -> list[str]:
    """Return the parameter's name of each gradient; the name of a parameter stays."""
    return [name.removeprefix(GRADIENT) for name in names]


def listed(names: Iterable[str], most: int = 3) -> str:
    """Join names in a sentence: `a, b, c and 4 more`."""
    ordered = sorted(names)
    more = len(ordered) - most
    return ", ".join(ordered[:most]) + (f" and {more} more" if more > 0 else "")


def depths(names: Iterable[str]) -> dict[str, int]:
    """Return the depth of parameters, from 0, by the numbers in their names: `layers.0.fc`, `layers.1.fc`.

    Numbers are compared among names with the same prefix; the prefix with most parameters is used.
    """
    families: dict[str, dict[str, tuple[int, ...]]] = defaultdict(dict)
    for name in names:
        if (first := re.search(r"\d+", name)) is not None:
            numbers = tuple(int(n) for n in re.findall(r"\d+", name))
            families[name[: first.start()]][name] = numbers
    if not families:
        return {}
    family = max(sorted(families), key=lambda prefix: len(families[prefix]))
    places = {numbers: i for i, numbers in enumerate(sorted(set(families[family].values())))}
    return {name: places[numbers] for name, numbers in families[family].items()}
