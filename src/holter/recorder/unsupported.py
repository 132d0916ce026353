"""Frameworks without an adapter: which of them this process imported."""

from __future__ import annotations

import sys

NOT_RECORDED = {
    "chainer": "Chainer",
    "fasttext": "fastText",
    "gensim": "gensim",
    "implicit": "implicit",
    "keras": "Keras",
    "lightfm": "LightFM",
    "mindspore": "MindSpore",
    "mlx": "MLX",
    "mxnet": "MXNet",
    "oneflow": "OneFlow",
    "paddle": "PaddlePaddle",
    "tinygrad": "tinygrad",
}
"""Modules of frameworks without an adapter, and their names."""
BACKENDS = {"keras": tuple(f"keras.src.backend.{name}.trainer" for name in ("torch", "jax", "tensorflow"))}
"""Framework with several backends → the modules of those with which it is recorded."""


def has_backend(framework: str) -> bool:
    """Whether a framework is loaded, with a backend with which it is recorded."""
    return any(module in sys.modules for module in BACKENDS.get(framework, (framework,)))


def not_recorded() -> dict[str, str | None]:
    """Return the versions of the frameworks that this process imported and that have no adapter."""
    found = [
        name for name in NOT_RECORDED if name in sys.modules and not (name in BACKENDS and has_backend(name))
    ]
    return {name: vars(sys.modules[name]).get("__version__") for name in found}
