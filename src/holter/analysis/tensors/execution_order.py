"""Puts the tensors of one step into the order in which the training computes them.

The first tensor that differs between two jobs is then a cause; those that follow from it come later.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from holter.schema.tables import GRADIENT, PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Sequence

_OF_MODULE = re.compile(r"(.*)_(input|output)(?:_.+)?")
_DATA = ("labels", "token_ids", "model_input")
DISCRETE = ("labels", "token_ids")
"""Roles of tensors whose whole numbers are the same or not, without round-off."""


class Stage(IntEnum):
    """What a step computes, in order. Weights are those before the update of their step."""

    STATE = 0
    DATA = 1
    FORWARD = 2
    BUFFER = 3
    LOSS = 4
    GRADIENT = 5
    UPDATE = 6


class TensorPlace(NamedTuple):
    """The place of a tensor in a step."""

    stage: Stage
    module: str
    kind: str = ""
    """`input` or `output` of the module, `parameter` or `optimizer`."""
    parameter: str = ""
    """The parameter that a gradient, or a state of the optimizer, belongs to."""


def place_of(name: str, role: str) -> TensorPlace:
    """Return the place of a saved tensor by its name and role."""
    kind = role.partition(":")[0]
    if kind == "grad" or name.startswith(GRADIENT):
        parameter = name.removeprefix(GRADIENT)
        return TensorPlace(Stage.GRADIENT, _owner(parameter), "gradient", parameter)
    if kind == "opt_state":
        parameter = name.rpartition("/")[0]
        return TensorPlace(Stage.STATE, _owner(parameter), "optimizer", parameter)
    if kind in PARAMETERS:
        return TensorPlace(Stage.STATE, _owner(name), "parameter", name)
    if kind == "buffer":
        return TensorPlace(Stage.BUFFER, _owner(name))
    found = _OF_MODULE.fullmatch(name)
    module, side = (found[1], found[2]) if found else ("", "")
    stage = Stage.DATA if kind in _DATA else Stage.LOSS if kind == "loss" else Stage.FORWARD
    return TensorPlace(stage, module, side)


def place_of_number(name: str) -> TensorPlace:
    """Return the place of a scalar that holter or the script records."""
    if "loss" in name.lower() and name != "loss_scale":
        return TensorPlace(Stage.LOSS, "")
    return TensorPlace(Stage.GRADIENT if name.startswith("grad_norm") else Stage.UPDATE, "")


def execution_order(places: Sequence[TensorPlace]) -> list[int]:
    """Return the position of each tensor of a step in the order of computation.

    Args:
        places: The tensors of one step, mode and rank in the order in which they were saved. Modules save
            their inputs when they return, so the input of a module comes after what its children saved.
    """
    began: dict[str, int] = {}
    parameters: dict[str, int] = {}
    for at, place in enumerate(places):
        if place.stage is Stage.FORWARD:
            for module in _with_parents(place.module):
                began.setdefault(module, at)
        elif place.stage is Stage.GRADIENT:
            parameters.setdefault(place.module, at)
    # Without all modules of the forward pass, the optimizer's order of parameters is the best there is.
    executed = began if all(module in began for module in parameters) else parameters
    seen: set[str] = set()

    def key(at: int) -> tuple[int, int, int, int]:
        place = places[at]
        if place.stage is Stage.STATE:
            return place.stage, place.kind != "optimizer", at, 0
        if place.stage is Stage.GRADIENT:
            return place.stage, -executed.get(place.module, -1), at, 0
        if place.stage is Stage.FORWARD and place.kind == "input" and place.module not in seen:
            seen.add(place.module)
            return place.stage, began[place.module], place.module.count(".") - len(places), at
        return place.stage, at, 0, 0

    order = sorted(range(len(places)), key=[key(at) for at in range(len(places))].__getitem__)
    positions = [0] * len(places)
    for position, at in enumerate(order):
        positions[at] = position
    return positions


def _owner(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]
