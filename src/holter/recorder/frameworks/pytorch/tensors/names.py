"""Names modules and parameters without their wrappers, and assigns their roles."""

from __future__ import annotations

import re
import weakref
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from holter.recorder.tensors.collections import TensorInfo, is_bias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)(?:\.|$)")
_PARALLEL = (
    "DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "OptimizedModule", "_FabricModule",
)  # fmt: skip
_INNER = ("module", "_orig_mod", "_fsdp_wrapped_module", "_forward_module")
ACTIVATIONS = {
    "ReLU": "relu",
    "ReLU6": "relu",
    "LeakyReLU": "leaky_relu",
    "PReLU": "leaky_relu",
    "GELU": "gelu",
    "SiLU": "silu",
    "Mish": "silu",
    "ELU": "elu",
    "SELU": "elu",
    "CELU": "elu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Softmax": "softmax",
    "LogSoftmax": "log_softmax",
    "Softplus": "softplus",
    "Hardtanh": "hardtanh",
    "Hardswish": "hardswish",
    "Hardsigmoid": "hardsigmoid",
}
"""Class of a module → its activation function, as roles name it."""
MAX_MODELS = 64
TRAVERSE_STEPS = 10
"""Steps after which models are traversed again, even without a visible change."""


class Models:
    """The models that the loop calls, referred to weakly."""

    def __init__(self) -> None:
        self._met: dict[int, weakref.ref[Any]] = {}
        self.last: weakref.ref[Any] | None = None
        """The last called model."""
        self._roots: dict[int, weakref.ref[Any]] = {}
        self._known: dict[int, tuple[weakref.ref[Any], TensorInfo]] = {}
        self._learned = -1
        """The step at which names were read; -1 if they must be read again."""
        self.aliases: dict[str, str] = {}
        """Other names of parameters that have several → the name that is used."""

    def add(self, module: Any) -> None:
        """Remember a model that the loop calls; a wrapper and its inner module are one model."""
        known = self._met.get(id(module))
        if known is not None and known() is module:
            self.last = known
            return
        if len(self._met) > MAX_MODELS:
            self._met.clear()
        self._met[id(module)] = self.last = weakref.ref(module)
        module = inner(module)
        if len(self._roots) < MAX_MODELS:
            self._roots[id(module)] = weakref.ref(module)
            self._learned = -1

    def alive(self) -> Iterator[Any]:
        """Yield the models that still exist, in the order of their first calls."""
        for key, reference in list(self._roots.items()):
            module = reference()
            if module is None:
                del self._roots[key]
            else:
                yield module

    def learn(self, step: int | None = None, parameters: Iterable[Any] = ()) -> None:
        """Name the parameters of all models; repeated at saved steps, because parameters may change.

        A parameter keeps its name for its life, even if models are created or deleted. The traversal of a
        large model is slow, so it is repeated within `TRAVERSE_STEPS` steps only if a change is visible, such
        as unknown `parameters` of an optimizer. Without `step` it is always repeated.
        """
        known = self._known
        if (
            step is not None
            and 0 <= self._learned <= step < self._learned + TRAVERSE_STEPS
            and all(id(one) in known for one in parameters)
            and all(reference() is not None for reference, _ in known.values())
        ):
            return
        self._learned = -1 if step is None else step
        known = {}
        before = {key: held for key, held in self._known.items() if held[0]() is not None}
        names = {tensor.name for _, tensor in before.values()}
        for root in self.alive():
            owners = dict(root.named_modules(remove_duplicate=False))
            for full, parameter in root.named_parameters(remove_duplicate=False):
                name = plain(full)
                seen = known.get(id(parameter))
                if seen is not None:
                    if seen[1].name != name:
                        self.aliases[name] = seen[1].name
                    continue
                kept = before.get(id(parameter))
                if kept is not None and kept[0]() is parameter:
                    known[id(parameter)] = kept
                    continue
                if name in names:
                    name = f"{class_name(root)}.{name}"
                names.add(name)
                owner = owners.get(full.rpartition(".")[0])
                known[id(parameter)] = (
                    weakref.ref(parameter),
                    TensorInfo(name, "parameter", _role(name, owner)),
                )
        self._known = known

    def parameter(self, parameter: Any, group: int, position: int) -> TensorInfo:
        """Return name and role of a parameter; without a known model, its position names it."""
        found = self._known.get(id(parameter))
        if found is not None and found[0]() is parameter:
            return found[1]
        return TensorInfo(f"group{group}.parameter{position}", "parameter", "weight")

    def named(self) -> Iterator[tuple[Any, TensorInfo]]:
        """Yield the parameters of all models in order of registration, with their names and roles."""
        for reference, tensor in self._known.values():
            parameter = reference()
            if parameter is not None:
                yield parameter, tensor

    def buffers(self) -> Iterator[tuple[Any, TensorInfo]]:
        """Yield the buffers of all models with their names; later models with equal names get a prefix."""
        names: set[str] = set()
        for root in self.alive():
            for full, buffer in root.named_buffers():
                name = plain(full)
                if name in names:
                    name = f"{class_name(root)}.{name}"
                names.add(name)
                yield buffer, TensorInfo(name, "buffer", "buffer")


def inner(module: Any) -> Any:
    """Return the user's module inside wrappers of parallel training and compilers."""
    for _ in range(4):
        if type(module).__name__ not in _PARALLEL:
            break
        found = next((module._modules[name] for name in _INNER if name in module._modules), None)
        if found is None:
            break
        module = found
    return module


def module_names(root: Any) -> dict[int, str]:
    """Return the names of a model's modules by their ids; the model itself has the name of its class."""
    root = inner(root)
    names = {id(module): plain(name).rstrip(".") for name, module in root.named_modules()}
    names[id(root)] = class_name(root)
    return names


def class_name(module: Any) -> str:
    """Return the name of the user's class, from which FSDP2 derives its own."""
    cls = type(module)
    return (cls.__mro__[2] if cls.__mro__[1].__name__ == "FSDPModule" else cls).__name__


def plain(name: str) -> str:
    """Return a dotted name without the parts of wrappers."""
    return _WRAPPERS.sub("", name)


def local(tensor: Any) -> Any:
    """Return the local part of a distributed tensor, without communication."""
    return (
        tensor._local_tensor if hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements") else tensor
    )


def part_of(tensor: Any) -> tuple[int, int]:
    """Return the number of the local part of a distributed tensor, and of all parts; 0, 0 if unknown.

    On a mesh that is sharded along one dimension and replicated along the other, several ranks hold the same
    part. Sums that the ranks have not reduced yet (`Partial`) have no parts.
    """
    placements: Any = getattr(tensor, "placements", None)
    mesh: Any = getattr(tensor, "device_mesh", None)
    place = None if placements is None or mesh is None else mesh.get_coordinate()
    if place is None or any(one.is_partial() for one in placements):
        return 0, 0
    part, parts = 0, 1
    for placement, at, size in zip(placements, place, mesh.shape, strict=True):
        if not placement.is_replicate():
            part, parts = part * size + at, parts * size
    return part, parts


def full_size(parameter: Any) -> int:
    """Return the number of elements of a parameter, also while DeepSpeed keeps parts of it on other ranks."""
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def gradients_freed(optimizer: Any) -> bool:
    """Return whether the gradients of an optimizer's parameters are gone before it steps.

    Then their absence means nothing, and those that are left may not be reduced yet.
    """
    return getattr(optimizer, "gradients_freed", False) is True


@lru_cache(1 << 16)
def gradient(parameter: TensorInfo) -> TensorInfo:
    """Return name and role of the gradient of a parameter."""
    return TensorInfo(f"gradient/{parameter.name}", "gradient", "grad")


def _role(name: str, owner: Any) -> str:
    cls = type(owner).__name__
    if cls.endswith(("Norm", "Norm1d", "Norm2d", "Norm3d")):
        return "norm_param"
    if "Embedding" in cls and not is_bias(name):
        return "embedding"
    return "bias" if is_bias(name) else "weight"
