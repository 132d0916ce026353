"""Frameworks without an adapter: which of them this process imported."""

from __future__ import annotations

import sys

NOT_RECORDED = {
    "keras": "Keras",
    "lightfm": "LightFM",
    "mxnet": "MXNet",
    "paddle": "PaddlePaddle",
    "tensorflow": "TensorFlow",
}
"""Modules of frameworks without an adapter, and their names."""
BACKENDS = {"keras": "keras.src.backend.torch.trainer"}
"""Framework with several backends → the module of the backend with which it is recorded."""


def not_recorded() -> dict[str, str | None]:
    """Return the versions of the frameworks that this process imported and that have no adapter."""
    found = [name for name in NOT_RECORDED if name in sys.modules and BACKENDS.get(name) not in sys.modules]
    return {name: vars(sys.modules[name]).get("__version__") for name in found}
