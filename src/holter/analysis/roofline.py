"""What operators should cost and what the device made of it: FLOP and bytes out of shapes, MFU, roofline."""

from __future__ import annotations

import json
import re
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.analysis.device_facts import judged
from holter.analysis.flops import peak
from holter.analysis.operator_tree import device_time, host
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

BANDWIDTHS: dict[str, float] = {
    "B300": 8.0,
    "B200": 8.0,
    "GB200": 8.0,
    "H200": 4.8,
    "H100 NVL": 3.9,
    "H100 PCIE": 2.0,
    "H100": 3.35,
    "A100 SXM4 80GB": 2.04,
    "A100 80GB PCIE": 1.94,
    "A100": 1.56,
    "V100": 0.9,
    "MI325X": 6.0,
    "MI300X": 5.3,
}
"""Terabytes a second between a device and its memory, by the makers; the first name that fits counts."""
_ELEMENT = {"double": 8, "long": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2, "short": 2, "bool": 1}
_TOLD = (("shapes", "Input Dims"), ("types", "Input type"), ("concrete", "Concrete Inputs"))
"""What details tell of inputs: as windows of recorded jobs call it, and as torch.profiler does."""
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
    """Return what one call of an operator costs by its shapes; None for what is not known here.

    Known are matrix products (2·M·N·K), convolutions (2·N·C_out·H·W·C_in/groups·K_h·K_w, twice that backward)
    and attention (4·B·H·N_q·N_kv·D, half of it when causal). `tracelens` counts the sum with the bias of
    `addmm` too, as TraceLens does.

    Args:
        name: As `aten::mm`.
        detail: What table `operators` has under `detail`: shapes, types and arguments as JSON.
        definition: `all` or `tracelens`.
    """
    work = _WORK.get(name)
    if work is None or not detail or len(detail) > _MOST_DETAIL:
        return None
    try:
        told = json.loads(detail)
        dims, types, concrete = (told.get(ours) or told.get(theirs) or [] for ours, theirs in _TOLD)
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


Shape = list[int]


def _shape(told: Any) -> Shape:
    """Return a shape; an empty one for what is none, as a list of tensors or a text."""
    fits = isinstance(told, list) and all(type(n) is int and 0 <= n < _MOST for n in told)
    return told if fits else []


def _mm(dims: Any, _: Any) -> tuple[int, list[Shape]]:
    (m, k), (_, n) = dims[0], dims[1]
    return 2 * m * n * k, [dims[0], dims[1], [m, n]]


def _addmm(dims: Any, _: Any) -> tuple[int, list[Shape]]:
    return _mm(dims[1:], _)


def _bmm(dims: Any, _: Any) -> tuple[int, list[Shape]]:
    (b, m, k), (_, _, n) = dims[0], dims[1]
    return 2 * b * m * n * k, [dims[0], dims[1], [b, m, n]]


def _baddbmm(dims: Any, _: Any) -> tuple[int, list[Shape]]:
    return _bmm(dims[1:], _)


def _convolution(dims: Any, concrete: Any) -> tuple[int, list[Shape]]:
    image, kernel = dims[0], dims[1]
    stride, padding, dilation = (_numbers(concrete[i], len(kernel) - 2) for i in (3, 4, 5))
    transposed = str(concrete[6]).lower() == "true"
    if transposed:  # each input element meets each tap once
        return 2 * prod(image) * prod(kernel[1:]), [image, kernel]
    out = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(image[2:], kernel[2:], stride, padding, dilation, strict=True)
    ]
    result = [image[0], kernel[0], *out]
    return 2 * prod(result) * prod(kernel[1:]), [image, kernel, result]


def _convolution_backward(dims: Any, _: Any) -> tuple[int, list[Shape]]:
    grad, image, kernel = dims[0], dims[1], dims[2]
    # Gradients of input and of weight, each as dear as the way forward.
    return 4 * prod(grad) * prod(kernel[1:]), [grad, image, image, kernel, kernel]


def _attention(dims: Any, concrete: Any) -> tuple[int, list[Shape]]:
    (b, h, q, d), (_, _, kv, _), (_, _, _, dv) = dims[0], dims[1], dims[2]
    flops = 2 * b * h * q * kv * (d + dv)
    causal = any(str(word).lower() == "true" for word in concrete[4:5])
    return flops // 2 if causal else flops, [dims[0], dims[1], dims[2], [b, h, q, dv]]


def _numbers(text: Any, count: int) -> list[int]:
    found = [int(word) for word in re.findall(r"-?\d+", str(text))]
    return found * count if len(found) == 1 else found


_WORK: dict[str, Any] = {
    "aten::mm": _mm,
    "aten::addmm": _addmm,
    "aten::bmm": _bmm,
    "aten::baddbmm": _baddbmm,
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention": _attention,
}

KNOWN = tuple(_WORK)
"""Operators whose cost their shapes tell."""


def _summed(cost: Cost, calls: int) -> tuple[int, int]:
    return min(cost.flops * calls, 2**62), min(cost.bytes * calls, 2**62)


def bandwidth(device: str) -> float | None:
    """Return the bytes a second of a device's memory; None for one that is not known."""
    text = " ".join(re.sub(r"[-_]", " ", device).upper().split())
    for name, terabytes in BANDWIDTHS.items():
        if re.search(rf"(?<![A-Z0-9]){name}(?![0-9])", text):
            return terabytes * 1e12
    return None


def roofline(tables: Mapping[str, Table], device: str = "", definition: str = "all") -> Table:
    """Set each known operator beside what its kernels took.

    Args:
        tables: `operators` with their details (record_shapes=True), `launches`, `kernels`,
            `memory_operations`, `syncs`.
        device: Its name, for the peaks; unknown ones leave `bound` empty.
        definition: As for `operator_cost`.

    Returns:
        name, calls, flops, bytes, device_ns (summed), tflops (per second), intensity (FLOP per byte),
        peak_pct (of the compute peak in that precision; NaN where it is not known), bound (compute or
        memory), the longest on the device first. Calls of one name and cost are one row.
    """
    tree = host(tables)
    ran = device_time(tree, tables)
    rows: dict[tuple[str, Cost], list[int]] = {}
    for (name, cost), ns in _costs(tree, tables, ran.tolist(), definition):
        known = rows.setdefault((name, cost), [0, 0])
        known[0] += 1
        known[1] += ns
    speed = bandwidth(device)
    found = []
    for (name, cost), (calls, ns) in sorted(rows.items(), key=lambda item: -item[1][1]):
        top = peak(device, cost.precision) if device and cost.precision in ("bf16", "fp16") else None
        tflops = cost.flops * calls / ns / 1e3 if ns else float("nan")
        intensity = cost.flops / cost.bytes if cost.bytes else float("nan")
        bound = ""
        if top and speed and cost.bytes:
            bound = "compute" if intensity >= top / speed else "memory"
        share = 100.0 * tflops * 1e12 / top if top else float("nan")
        found.append((name, calls, *_summed(cost, calls), ns, tflops, intensity, share, bound))
    titles = ("name", "calls", "flops", "bytes", "device_ns", "tflops", "intensity", "peak_pct", "bound")
    kinds: list[Any] = [object, *[np.int64] * 4, *[float] * 3, object]
    columns = zip(*found, strict=True) if found else [()] * len(titles)
    return Table({t: np.array(c, dtype=k) for t, c, k in zip(titles, columns, kinds, strict=True)})


def _costs(tree: Any, tables: Mapping[str, Table], ran: list[int], definition: str) -> Any:
    """Yield name and cost of each operator that is known, with the time of its kernels."""
    details = tables["operators"]["detail"] if "operators" in tables else np.empty(0, object)
    wanted = [i for i, name in enumerate(tree.names) if name in _WORK]
    known: dict[tuple[str, str], Cost | None] = {}
    for i in np.flatnonzero(np.isin(tree.name, wanted) & (tree.row >= 0)).tolist():
        key = (tree.names[tree.name[i]], details[tree.row[i]])
        if key not in known:
            known[key] = operator_cost(*key, definition)
        cost = known[key]
        if cost is not None:
            yield (key[0], cost), ran[i]


class Utilization(NamedTuple):
    """How much of what a device could compute a trace made use of."""

    flops: int
    """Of the known operators, recomputation included."""
    window_ns: int
    devices: int
    peak: float
    """FLOP a second of one device, in the precision in which most is computed."""
    precision: str

    @property
    def mfu_pct(self) -> float:
        """FLOP done over FLOP possible, percent."""
        possible = self.peak * self.window_ns / 1e9 * self.devices
        return 100.0 * self.flops / possible if possible > 0 else 0.0


def utilization(tables: Mapping[str, Table], device: str) -> Utilization | None:
    """Compute the model's FLOP utilization; None where shapes, the device or its peak are not known."""
    tree = host(tables)
    by_precision: dict[str, int] = {}
    windows = judged(tables)
    inside = np.zeros(len(tree.begin), dtype=np.int64)
    spans = tables.get("spans") or Table.empty("spans")
    stepped = set(spans["rank"][spans["phase"] == "step"].tolist())
    for rank, begin, end in windows:
        within = (tree.begin >= begin) & (tree.begin < end) if rank in stepped else True
        inside[(tree.rank == rank) & within] = 1
    for (_, cost), counts in _costs(tree, tables, inside.tolist(), "all"):
        if counts:
            by_precision[cost.precision] = by_precision.get(cost.precision, 0) + cost.flops
    if not by_precision:
        return None
    precision = max(by_precision, key=lambda word: by_precision[word])
    top = peak(device, precision) if precision in ("bf16", "fp16") else None
    window = int(np.mean([end - begin for _, begin, end in windows]))
    if top is None or not window:
        return None
    return Utilization(sum(by_precision.values()), window, len(windows), top, precision)
