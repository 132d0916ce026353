"""Fingerprints of sampled elements: of each parameter at most 64, in one copy for all parameters."""

from __future__ import annotations

import ctypes
import weakref
import zlib
from array import array
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.names import local, part_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ELEMENTS = 64
"""Sampled elements of one tensor."""
PARAMETERS = 128
"""Parameters of one optimizer that are sampled, evenly spaced."""


@dataclass(slots=True)
class Chosen:
    """The sampled elements of parameters, and then those of their gradients, as one vector."""

    vector: Any
    owners: list[tuple[int, Any]]
    """Position in the optimizer and parameter."""
    sizes: list[int]
    """Sampled elements of each parameter, and then of each gradient; 0 for an absent gradient."""
    sharded: bool


def weakly(parameters: Iterable[Any]) -> list[Any]:
    """Return weak references."""
    return [weakref.ref(one) for one in parameters]


def gradients_left(parameters: Sequence[Any]) -> bool | None:
    """Return whether gradients are present and not zero; None if only a device knows."""
    gradients = [one.grad for one in parameters if one is not None and one.grad is not None]
    if not gradients:
        return False if any(one is not None for one in parameters) else None
    parts = [part for one in gradients if (part := _sample(one)) is not None]
    if not parts or any(not one.is_cpu for one in parts):
        return None
    return any(bool(one.any()) for one in parts)


def chosen(torch: Any, parameters: Sequence[Any]) -> Chosen | None:
    """Sample parameters and their gradients on the device of the first; None where nothing can be read."""
    owners: list[tuple[int, Any]] = []
    parts: list[Any] = []
    gradients: list[Any] = []
    sharded = False
    every = (len(parameters) - 1) // PARAMETERS + 1
    for at in range(0, len(parameters), every):
        part = _sample(parameters[at])
        if part is None or (parts and part.device != parts[0].device):
            continue
        sharded = sharded or part_of(parameters[at])[1] > 1
        owners.append((at, parameters[at]))
        parts.append(part)
        gradient = parameters[at].grad
        other = None if gradient is None else _sample(gradient)
        gradients.append(other if other is not None and other.device == part.device else part[:0])
    if not parts:
        return None
    sizes = [one.numel() for one in (*parts, *gradients)]
    return Chosen(_joined(torch, [*parts, *gradients]), owners, sizes, sharded)


def gathered(torch: Any, parameters: Sequence[Any]) -> tuple[Any, list[int]] | None:
    """Sample parameters; return the elements and how many each parameter has, None if one cannot be read."""
    parts = [_sample(one) for one in parameters]
    if not parts or any(one is None or one.device != parts[0].device for one in parts):
        return None
    return _joined(torch, parts), [one.numel() for one in parts]


def _joined(torch: Any, parts: Sequence[Any]) -> Any:
    """Return vectors as one vector of doubles."""
    wide = [one.double() if one.dtype is not parts[0].dtype else one for one in parts]
    return torch.cat(wide).double()


def _sample(tensor: Any) -> Any:
    """Return a view of evenly spaced elements, in the order of memory; None for what has no such view."""
    tensor = local(tensor)
    size = tensor.numel()
    if not size or not tensor.is_floating_point() or not (tensor.is_cpu or tensor.is_cuda):
        return None
    if str(tensor.layout) != "torch.strided" or tensor.element_size() == 1:
        return None
    taken = min(size, ELEMENTS)
    try:
        return tensor.detach().as_strided((taken,), (size // taken,))
    except RuntimeError:  # the storage is freed, as those of sharded parameters are
        return None


def prints(host: Any, sizes: Sequence[int]) -> dict[str, list[Any]]:
    """Return hashes of parameters, which of them are constant, and hashes of gradients.

    The hash of zeros, or of an absent gradient, is 0.
    """
    count = len(sizes) // 2
    raw = ctypes.string_at(host.data_ptr(), 8 * host.numel())
    at = 0
    hashes: list[Any] = []
    constant: list[Any] = []
    for size in sizes:
        part = raw[at : at + 8 * size]
        at += 8 * size
        constant.append(part == part[:8] * size)
        hashes.append(0 if constant[-1] and not any(part[:8]) else zlib.crc32(part) or 1)
    return {"prints": hashes[:count], "constant": constant[:count], "gradients": hashes[count:]}


def packed(document: dict[str, Any]) -> dict[str, Any]:
    """Return long lists of a document as short texts."""
    made: dict[str, Any] = {}
    for key in ("prints", "gradients"):
        if key in document:
            made[key] = b64encode(array("I", document[key]).tobytes()).decode()
    if "constant" in document:
        made["constant"] = "".join("1" if one else "0" for one in document["constant"])
    return made
