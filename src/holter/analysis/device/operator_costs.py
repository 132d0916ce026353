"""Computes the cost of an operator call, in FLOP and bytes, from shapes, types and arguments."""

from __future__ import annotations

import json
import re
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    Shape = list[int]
    Work = Callable[[Any, Any], tuple[int, list[Shape]]]

_ELEMENT = {"double": 8, "long": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2, "short": 2, "bool": 1}
_INPUTS = (("shapes", "Input Dims"), ("types", "Input type"), ("concrete", "Concrete Inputs"))
"""Keys of an operator's inputs: in windows of recorded jobs, and in traces of torch.profiler."""
_PRECISION = {"double": "fp64", "float": "fp32", "half": "fp16", "bfloat16": "bf16"}
_MOST = 1 << 56
"""Operations and elements of one call, at most."""
_MOST_DETAIL = 1 << 20
"""Longer details are not looked at."""


class Cost(NamedTuple):
    """Of one call of an operator."""

    flops: int
    bytes: int
    """Inputs read and output written once; 0 when the types are not known."""
    precision: str


def operator_cost(name: str, detail: str, definition: str = "all") -> Cost | None:
    """Return the cost of an operator call by its shapes; None for unknown operators.

    Known are matrix products (2·M·N·K), convolutions (2·N·C_out·H·W·C_in/groups·K_h·K_w, backward as much for
    each requested gradient, both where the requests are unknown) and attention (2·B·H·N_q·N_kv·(D + D_v),
    backward 2·B·H·N_q·N_kv·(3·D + 2·D_v) with the scores computed again; half of it when causal).
    `tracelens` counts the sum with the bias of `addmm` too, as TraceLens does.

    Args:
        name: As `aten::mm`.
        detail: What table `operators` has under `detail`: shapes, types and arguments as JSON.
        definition: `all` or `tracelens`.
    """
    work = _WORK.get(name)
    if work is None or not detail or len(detail) > _MOST_DETAIL:
        return None
    try:
        found = json.loads(detail)
        dims, types, concrete = (found.get(ours) or found.get(theirs) or [] for ours, theirs in _INPUTS)
        flops, shapes = work([*map(_shape, dims)], concrete)
        if definition == "tracelens" and name == "aten::addmm":
            flops += prod(shapes[-1])
    except (ValueError, AttributeError, IndexError, TypeError, RecursionError, ZeroDivisionError):
        return None
    elements = sum(map(prod, shapes))
    if not (0 <= flops < _MOST and 0 <= elements < _MOST):
        return None  # no device does that in one call: it is damage
    words = [str(word).lower().removeprefix("c10::") for word in types]
    word = next((word for word in words if word in _ELEMENT), "")
    size = _ELEMENT.get(word, 0)
    return Cost(flops, size * elements, _PRECISION.get(word, ""))


def _shape(sizes: Any) -> Shape:
    """Return a shape; an empty one for other arguments, as lists of tensors or texts."""
    fits = isinstance(sizes, list) and all(type(n) is int and 0 <= n < _MOST for n in sizes)
    return sizes if fits else []


def _mm(dims: Any, _: Any) -> tuple[int, list[Shape]]:
    (m, k), (_, n) = dims[0], dims[1]
    return 2 * m * n * k, [dims[0], dims[1], [m, n]]


def _bmm(dims: Any, _: Any) -> tuple[int, list[Shape]]:
    (b, m, k), (_, _, n) = dims[0], dims[1]
    return 2 * b * m * n * k, [dims[0], dims[1], [b, m, n]]


def _convolution(dims: Any, concrete: Any) -> tuple[int, list[Shape]]:
    image, kernel = dims[0], dims[1]
    stride, padding, dilation = (_numbers(concrete[i], len(kernel) - 2) for i in (3, 4, 5))
    if _flags(concrete[6])[0]:  # transposed: each input element is multiplied by each tap once
        return 2 * prod(image) * prod(kernel[1:]), [image, kernel]
    out = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(image[2:], kernel[2:], stride, padding, dilation, strict=True)
    ]
    result = [image[0], kernel[0], *out]
    return 2 * prod(result) * prod(kernel[1:]), [image, kernel, result]


def _convolution_backward(dims: Any, concrete: Any) -> tuple[int, list[Shape]]:
    grad, image, kernel = dims[0], dims[1], dims[2]
    transposed = any(_flags(*concrete[7:8]))
    # Gradients of input and of weight, each as expensive as the forward pass; a first layer needs one.
    of_input, of_weight, *_ = *_flags(*concrete[10:11]), True, True
    forward = 2 * prod(image if transposed else grad) * prod(kernel[1:])
    return forward * (of_input + of_weight), [grad, *[image, kernel] * (of_input + of_weight)]


def _attention(causal: int, *, backward: bool = False) -> Work:
    """Return what counts attention whose argument of this number says whether it is causal."""

    def work(dims: Any, concrete: Any) -> tuple[int, list[Shape]]:
        inputs = dims[1:4] if backward else dims[:3]
        (b, h, q, d), (_, _, kv, _), (_, _, _, dv) = inputs
        flops = 2 * b * h * q * kv * (3 * d + 2 * dv if backward else d + dv)
        result = [b, h, q, dv]
        shapes = [*inputs * 2, result, result] if backward else [*inputs, result]
        return flops // 2 if any(_flags(*concrete[causal : causal + 1])) else flops, shapes

    return work


def _numbers(text: Any, count: int) -> list[int]:
    found = [int(word) for word in re.findall(r"-?\d+", str(text))]
    return found * count if len(found) == 1 else found


def _flags(text: Any = "") -> list[bool]:
    return [word == "true" for word in re.findall(r"true|false", str(text).lower())]


_WORK: dict[str, Work] = {
    "aten::mm": _mm,
    "aten::addmm": lambda dims, concrete: _mm(dims[1:], concrete),
    "aten::bmm": _bmm,
    "aten::baddbmm": lambda dims, concrete: _bmm(dims[1:], concrete),
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention": _attention(4),
    "aten::_scaled_dot_product_flash_attention_backward": _attention(11, backward=True),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention(4),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention(7, backward=True),
    "aten::_scaled_dot_product_efficient_attention": _attention(6),
    "aten::_scaled_dot_product_efficient_attention_backward": _attention(11, backward=True),
    "aten::_scaled_dot_product_cudnn_attention": _attention(6),
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention(14, backward=True),
}

KNOWN = tuple(_WORK)
"""Operators whose cost their shapes tell."""
