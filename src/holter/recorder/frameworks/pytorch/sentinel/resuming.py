"""Watches how a training resumes: what a checkpoint holds, and which parts of it are loaded."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.patches import Patches

_COUNTERS = ("global_step", "step", "iteration", "iter", "epoch")
"""Names under which checkpoints store how far the training was, the finest first."""
_MOST = 64
"""Entries of a dictionary or list of a checkpoint that are read, and models that are remembered."""
_SERIES = 16


class Resuming:
    """Remembers the last checkpoint that was loaded, without its tensors."""

    def __init__(self, adapter: AdapterState) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("sentinel_resuming")
        self._found: dict[str, Any] | None = None
        self._series = ""
        self._saved: set[str] = set()
        """Series of files that this process saves."""
        self._models: list[weakref.ref[Any]] = []
        """Models that took their weights from somewhere since then."""
        self._settled = False

    def attach(self, patches: Patches) -> None:
        """Hear of checkpoints, and of models and optimizers that take their state from them."""
        torch = self.adapter.torch
        patches.after(torch, "load", self._on_load, self.breaker)
        patches.after(torch, "save", self._on_save, self.breaker)
        patches.after(torch.nn.Module, "load_state_dict", self._on_model, self.breaker)
        patches.after(torch.optim.Optimizer, "load_state_dict", self._on_optimizer, self.breaker)

    def _on_save(self, _: Any, __: Any = None, file: Any = None, *args: Any, **kwargs: Any) -> None:
        path = file if file is not None else kwargs.get("f")
        if len(self._saved) < _SERIES and isinstance(path, (str, os.PathLike)):
            self._saved.add(_series(path))

    def _on_load(self, loaded: Any, file: Any = None, *_: Any, **kwargs: Any) -> None:
        path: Any = file if file is not None else kwargs.get("f")
        held = contents(loaded)
        if not held["entries"]:
            return
        named = isinstance(path, (str, os.PathLike))
        self._series = _series(path) if named else ""
        name = os.path.basename(os.fsdecode(path)) if named else ""
        self._found = {"file": name, "step": self.adapter.session.step, "optimizers_loaded": 0, **held}
        self._models, self._settled = [], False

    def _on_model(self, _: Any, model: Any, *__: Any, **___: Any) -> None:
        if self._found is not None and not self._settled and len(self._models) < _MOST:
            self._models.append(weakref.ref(model))

    def _on_optimizer(self, _: Any, optimizer: Any, *__: Any, **___: Any) -> None:
        if self._found is not None:
            self._found["optimizers_loaded"] += 1

    def before(self, optimizer: Any, parameters: list[Any]) -> None:
        """Look at the first step of an optimizer after a checkpoint was loaded: has it any state?"""
        if self._found is None or self._settled:
            return
        self._settled = True
        held = set(map(id, parameters))
        models = [model for one in self._models if (model := one()) is not None]
        steps = counter(optimizer)
        since = self.adapter.session.step - self._found["step"]
        self._found |= {
            "model_loaded": any(id(one) in held for model in models for one in model.parameters()),
            "fresh": not optimizer.state or (steps is not None and steps <= since),
            "counter": steps,
        }

    def facts(self) -> dict[str, Any]:
        """Return what is known about the last checkpoint; nothing before the first step after it."""
        if self._found is None or not self._settled:
            return {}
        return {"resumed": {**self._found, "own": bool(self._series) and self._series in self._saved}}


def contents(loaded: Any) -> dict[str, Any]:
    """Return what a checkpoint holds besides weights.

    `entries`: tensors of optimizers. `schedule`: calls of the schedule of the learning rate. `at`: name and
    value of the counter of the training.
    """
    found: dict[str, Any] = {"entries": 0, "schedule": None, "at": None}
    if not isinstance(loaded, Mapping):
        return found
    for one in _parts(loaded):
        if "param_groups" in one and isinstance(state := one.get("state"), Mapping):
            found["entries"] += len(state)
        elif isinstance(calls := one.get("last_epoch"), int):
            found["schedule"] = max(calls, found["schedule"] or 0)
    for name in _COUNTERS:
        if isinstance(value := loaded.get(name), int) and not isinstance(value, bool):
            found["at"] = [name, value]
            break
    return found


def _parts(loaded: Mapping[Any, Any]) -> Iterator[Mapping[Any, Any]]:
    """Yield the dictionaries of a checkpoint: itself, its values, and those in its lists."""
    yield loaded
    for _, value in zip(range(_MOST), loaded.values(), strict=False):
        for one in value[:_MOST] if isinstance(value, (list, tuple)) else (value,):
            if isinstance(one, Mapping):
                yield one


def counter(optimizer: Any) -> int | None:
    """Return the number of steps that an optimizer counts itself; None where it counts none on the host."""
    state = next(iter(optimizer.state.values()), None)
    steps: Any = state.get("step") if isinstance(state, Mapping) else None
    if isinstance(steps, (int, float)) or (getattr(steps, "is_cpu", False) and steps.numel() == 1):
        return int(steps)
    return None


def _series(path: str | os.PathLike[Any]) -> str:
    """Return a path whose file has no numbers: checkpoints of one training differ in them only."""
    folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
    return os.path.join(folder, re.sub(r"\d+", "#", name))
