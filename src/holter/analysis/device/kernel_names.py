"""Reads kernel names: matrix products, their precision, and use of tensor cores."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_PRODUCT = re.compile(
    r"gemm|gemv|cijk_|convolve|conv_?\d?d?_?(fwd|bwd|fprop|dgrad|wgrad)|fprop|dgrad|wgrad|winograd|nvjet|igemm_"
    r"|[sh]cudnn|fmha|flash|attention|attn_(fwd|bwd)|_xdl|xdlops|triton_tem|triton_mm|cutlass.*kernel.*tensorop"
)
"""Matrix products, convolutions and attention, in lower case."""
_HELPERS = re.compile(
    r"^triton_(poi|per|red)_|reduce|offsets|tonhwc|tonchw|quantize|reshape_and_cache|indices|reduction|winogradtiles"
    r"|fbgemm_gpu|embedding|dot_kernel|at::native"
)
"""What prepares or tidies up after one; a fused pointwise kernel is named after all it stands between."""
_TENSOR = re.compile(
    r"tensorop|tensor\d+x\d+x\d+|[a-z]_?(884|1688|16816|161616)|hmma|wgmma|wmma|xmma|mfma|xdl|nvjet|warpgroup"
    r"|flash|fmha|attention|attn_(fwd|bwd)"
)
_VECTOR = re.compile(r"simt|gemv")
"""Kernels that run on the ordinary units whatever their numbers are."""
_PRECISION = (
    ("fp8", re.compile(r"e4m3|e5m2|fp8|(?<![a-z])f8|nvjet_q")),
    ("fp64", re.compile(r"dgemm|d884|double|cijk_\w{4}_\w{4}_d")),
    ("tf32", re.compile(r"tf32|tfloat32|xf32|nvjet_s")),
    ("bf16", re.compile(r"bf16|bfloat16|cijk_\w{4}_\w{4}_b|nvjet_t")),
    ("fp16", re.compile(r"f16|fp16|half|hgemm|hcudnn|h_?(884|1688|16816|161616)|cijk_\w{4}_\w{4}_h|nvjet_h")),
    ("int8", re.compile(r"int8|imma|i(8816|16832)|cijk_\w{4}_\w{4}_i")),
    ("tf32", re.compile(r"tensorop_s1688")),
    ("fp32", re.compile(r"sgemm|scudnn|float|f32|fp32|cijk_\w{4}_\w{4}_s|cgemm")),
)
"""Spellings from the most telling to the least: what sums up in float says so too."""


class Product(NamedTuple):
    """A kernel that multiplies matrices."""

    precision: str
    """Of its inputs: fp8, int8, fp16, bf16, tf32, fp32 or fp64; empty where the name does not say."""
    tensor_cores: bool
    """Whether it runs on tensor or matrix cores in less than full single precision."""

    @property
    def reduced(self) -> bool:
        """Whether it computes in less than single precision, on whatever units."""
        return self.tensor_cores or self.precision in ("fp8", "int8", "fp16", "bf16", "tf32")


@lru_cache(maxsize=65536)
def product(name: str) -> Product | None:
    """Return the kind of matrix product of a kernel by its name; None for other kernels.

    The names are those of cuBLAS, cuDNN, CUTLASS, hipBLASLt (Tensile), Composable Kernel, MIOpen, Triton and
    the usual attention kernels.
    """
    text = name.lower()
    if not _PRODUCT.search(text) or _HELPERS.search(text):
        return None
    precision = next((word for word, spelling in _PRECISION if spelling.search(text)), "")
    if _VECTOR.search(text) or precision in ("fp32", "fp64"):
        return Product(precision, tensor_cores=False)
    # Matrix cores are the only way of these families to multiply in such a precision.
    family = text.startswith(("cijk_", "igemm_"))
    return Product(precision, tensor_cores=bool(family or _TENSOR.search(text)))
