"""Attaches an adapter when the script first uses its framework, because many scripts only import it.

Until then the framework has wrappers that cost little, and nothing else of the recorder is loaded.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks import torch_uses
from holter.recorder.patches import Patches, hide

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_USES = {
    "torch": torch_uses.USES,
    "xgboost": (
        ("xgboost.core", "DMatrix", "__init__"),
        ("xgboost.core", "QuantileDMatrix", "__init__"),
        ("xgboost.core", "ExtMemQuantileDMatrix", "__init__"),
        ("xgboost.core", "Booster", "__init__"),
    ),
    "lightgbm": (("lightgbm.basic", "Dataset", "__init__"), ("lightgbm.basic", "Booster", "__init__")),
    "tensorflow": (
        ("tensorflow.python.data.ops.iterator_ops", "OwnedIterator", "__init__"),
        ("tensorflow.python.eager.polymorphic_function.polymorphic_function", "Function", "__call__"),
        ("tensorflow.python.eager.backprop", "GradientTape", "__init__"),
    ),
    "keras": (
        ("keras.src.layers.layer", "Layer", "__init__"),
        ("keras.src.optimizers.base_optimizer", "BaseOptimizer", "__init__"),
        # Loggers of other libraries wrap them before there is a model, and keep what they find.
        ("keras.src.models.model", "Trainer", "fit"),
        ("keras.src.models.model", "Trainer", "evaluate"),
        ("keras.src.models.model", "Trainer", "predict"),
    ),
    "catboost": (("catboost.core", "Pool", "__init__"), ("catboost.core", "_CatBoostBase", "_train")),
    "ray.train.v2._internal.execution.context": (
        ("ray.train.v2._internal.execution.context", "TrainContext", "__init__"),
    ),
    "ray.tune.trainable.trainable": (("ray.tune.trainable.trainable", "Trainable", "__init__"),),
    "ray.data._internal.iterator.stream_split_iterator": (
        ("ray.data._internal.iterator.stream_split_iterator", "StreamSplitDataIterator", "_get_dataset_tag"),
    ),
    "ray.data._internal.block_batching.iter_batches": (
        ("ray.data._internal.block_batching.iter_batches", "BatchIterator", "__init__"),
    ),
}
"""Trigger → module, class and name of each function with which a use begins; no class: of the module."""
_USED_BY_IMPORT = {"torch": torch_uses.MODULES}
"""Trigger → modules whose import is a use of the framework."""


class _Use:
    """A function with which a use begins: the wrapper in its place, and what that calls."""

    def __init__(self, owner: Any, name: str, begin: Callable[[], object], patches: Patches) -> None:
        self.owner, self.name = owner, name
        self.call: Callable[..., Any] = getattr(owner, name)
        self.waits = True

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self.waits:
                begin()
            try:
                return self.call(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise

        self.ours = wrapper
        patches.replace(owner, name, wrapper)

    @property
    def in_place(self) -> bool:
        """Whether no other library has wrapped the wrapper; theirs must not be called by it."""
        return vars(self.owner).get(self.name) is self.ours

    def go_on(self) -> None:
        """Call what the adapter has put in this place, as the script may keep the wrapper by another name."""
        self.call = getattr(self.owner, self.name)


class _Wait:
    """The waiting for the first use of one framework."""

    def __init__(self, attach: Callable[[], None]) -> None:
        self._attach = attach
        self.patches = Patches()
        self.uses: list[_Use] = []

    def end(self) -> None:
        """Attach the adapter."""
        bound = [use for use in self.uses if use.in_place]
        self.stop()
        self._attach()
        for use in bound:
            use.go_on()

    def stop(self) -> None:
        """Remove the wrappers."""
        self.patches.undo()
        for use in self.uses:
            use.waits = False


_waiting: dict[str, _Wait] = {}


def wait(
    trigger: str,
    attach: Callable[[], None],
    when_imported: Callable[[str, Callable[[str], object]], None],
) -> None:
    """Call `attach` before the first use of a framework; `attach` must not raise.

    `when_imported` calls a function with the name of a module once that is loaded.
    """
    if trigger in _waiting:
        return
    waiting = _waiting[trigger] = _Wait(attach)
    patches = waiting.patches

    def begin() -> bool:
        return wait_no_longer(trigger)

    if trigger == "sklearn.base":
        from holter.recorder.frameworks.scikit_learn import fit_calls

        fit_calls.watch(sys.modules[trigger], begin, patches, when_imported)
        return
    if trigger == "ray._private.worker":
        from holter.recorder.frameworks.ray import cluster

        cluster.watch(sys.modules[trigger], patches)
        return
    if trigger == "jax":
        from holter.recorder.frameworks.jax import transforms

        transforms.watch(sys.modules[trigger], begin, patches)
        for library in ("optax", "equinox"):
            when_imported(library, transforms.watch_updates)
        return
    for module, owner, name in _FIRST_USES[trigger]:
        found = sys.modules.get(module)
        found = getattr(found, owner, None) if owner else found
        if found is not None and hasattr(found, name):  # another version may lack it
            waiting.uses.append(_Use(found, name, begin, patches))
    for module in _USED_BY_IMPORT.get(trigger, ()):
        when_imported(module, lambda _: wait_no_longer(trigger))


def waits(trigger: str) -> bool:
    """Return whether a framework is imported and was not used so far."""
    return trigger in _waiting


def wait_no_longer(trigger: str) -> bool:
    """Attach now; return False if nothing waits, as another thread attaches already."""
    waiting = _waiting.pop(trigger, None)
    if waiting is not None:
        waiting.end()
    return waiting is not None


def stop() -> None:
    """Remove the wrappers of all frameworks that were not used."""
    while _waiting:
        _waiting.popitem()[1].stop()
