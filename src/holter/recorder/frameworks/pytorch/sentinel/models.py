"""What trains at a step: parameters that require and receive gradients, and modes of modules."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.names import full_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.recorder.frameworks.pytorch.tensors.names import Models

LISTED = 20
"""Names in one list of an event."""


class ModelFacts:
    """Describes the models at steps that are due, and compares which parameters are trainable."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._trainable: dict[str, bool] = {}
        """Whether each parameter was trainable at the step before."""

    def take(self, received: set[int], held: Mapping[int, set[int]], ever_held: set[int]) -> dict[str, Any]:
        """Return the facts of a step.

        Args:
            received: Ids of parameters that had a gradient at an optimizer's step.
            held: Ids of the parameters of each optimizer that stepped.
            ever_held: Ids of all parameters that an optimizer has held.
        """
        trained: dict[str, int] = {}
        unused: list[str] = []
        unheld: list[str] = []
        changed: dict[bool, list[str]] = {True: [], False: []}
        total = unused_elements = changed_elements = 0
        roots = [
            root for root in self._models.alive() if any(id(one) in received for one in root.parameters())
        ]
        judged: set[int] = set()
        before, self._trainable = self._trainable, {}
        for parameter, tensor in self._models.named():
            key, size, trains = id(parameter), full_size(parameter), parameter.requires_grad
            total += size
            self._trainable[tensor.name] = trains
            if before.get(tensor.name, trains) is not trains:
                changed[trains].append(tensor.name)
                changed_elements += size
            if not trains:
                continue
            trained[tensor.role] = trained.get(tensor.role, 0) + size
            if key in received:
                if key not in ever_held:
                    unheld.append(tensor.name)
                continue
            if not judged:  # rarely needed, and slow
                judged.update(*held.values(), (id(one) for root in roots for one in root.parameters()))
            if key in judged:
                unused.append(tensor.name)
                unused_elements += size
        facts = {
            "elements": total,
            "trained": trained,
            "unused": unused[:LISTED],
            "unused_count": len(unused),
            "unused_elements": unused_elements,
            "unheld": unheld[:LISTED],
            "unheld_count": len(unheld),
            "models": [_modes(root) for root in roots],
        }
        if changed_elements:
            facts["changed"] = {
                "elements": changed_elements,
                "frozen": changed[False][:LISTED],
                "frozen_count": len(changed[False]),
                "thawed": changed[True][:LISTED],
                "thawed_count": len(changed[True]),
                "functions": sorted({name for root in roots for name in _freezing(root)})[:LISTED],
            }
        return facts


def _modes(root: Any) -> dict[str, Any]:
    modules = list(root.modules())
    kinds = [type(one).__name__ for one in modules]
    return {
        "model": type(root).__qualname__,
        "training": root.training,
        "modules": len(modules),
        "eval": sum(not one.training for one in modules),
        "dropout": sum("Dropout" in kind for kind in kinds),
        "batch_norm": sum("BatchNorm" in kind for kind in kinds),
    }


def _freezing(root: Any) -> set[str]:
    """Return the functions `train` and `eval` of a model's classes that change what is trainable."""
    found: set[str] = set()
    for cls in {type(one) for one in root.modules()}:
        for name in ("train", "eval"):
            function = getattr(cls, name)
            if not isinstance(function, types.FunctionType) or function.__module__.startswith("torch."):
                continue
            if any(_sets_trainable(one) for one in (function, *_called(cls, function))):
                found.add(f"{cls.__qualname__}.{name}")
    return found


def _called(cls: type, function: types.FunctionType) -> list[types.FunctionType]:
    """Return the methods of the same class that a function names."""
    named = (getattr(cls, name, None) for name in function.__code__.co_names)
    return [one for one in named if isinstance(one, types.FunctionType) and one.__module__ == cls.__module__]


def _sets_trainable(function: types.FunctionType) -> bool:
    return not {"requires_grad", "requires_grad_"}.isdisjoint(function.__code__.co_names)
