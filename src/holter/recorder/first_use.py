"""Attaches an adapter when the script first uses its framework, because many scripts only import it.

Until then the framework has wrappers that cost little, and nothing else of the recorder is loaded.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.patches import Patches, hide

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_USES = {
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
"""Trigger → module, class and method of each function with which a use of the framework begins."""
_waiting: dict[str, Patches] = {}


def wait(
    trigger: str,
    attach: Callable[[], None],
    when_imported: Callable[[str, Callable[[str], None]], None],
) -> None:
    """Call `attach` before the first use of a framework; `attach` must not raise.

    `when_imported` calls a function with the name of a module once that is loaded.
    """
    if trigger in _waiting:
        return
    patches = _waiting[trigger] = Patches()

    def begin() -> bool:
        """Attach, unless another thread does so already."""
        if _waiting.pop(trigger, None) is None:
            return False
        patches.undo()
        attach()
        return True

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
    for module, owner, method in _FIRST_USES[trigger]:
        found = getattr(sys.modules.get(module), owner, None)
        if isinstance(found, type) and method in vars(found):
            patches.replace(found, method, _first(found, method, begin))


def wait_no_more() -> None:
    """Remove the wrappers of all frameworks that were not used."""
    while _waiting:
        _waiting.popitem()[1].undo()


def _first(owner: type, method: str, begin: Callable[[], bool]) -> Callable[..., Any]:
    original = getattr(owner, method)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        # If another library has wrapped this wrapper since, it already runs: it must not run again.
        ours = vars(owner).get(method) is wrapper
        call = getattr(owner, method) if begin() and ours else original
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise

    return wrapper
