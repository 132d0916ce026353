"""A small training without PyTorch: `python other_frameworks.py NAME DEVICE`; its last line is JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

STEPS, ROWS, COLUMNS = 40, 4096, 64


def data() -> tuple[Any, Any]:
    """Return rows and what is to be learned of them."""
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), dtype=np.float32)
    return x, (x @ np.linspace(-1, 1, COLUMNS, dtype=np.float32)).astype(np.float32)


def xgboost(device: str) -> str:
    """Boost trees."""
    import xgboost as library

    x, y = data()
    settings = {"device": device, "tree_method": "hist", "max_depth": 6, "nthread": 1}
    library.train(settings, library.DMatrix(x, y), STEPS)
    return device


def jax(device: str) -> str:
    """Train two layers with a compiled step."""
    import jax as library
    import jax.numpy as jnp

    import holter

    x, y = (library.device_put(one) for one in data())

    def updated(weights: Any) -> Any:
        def loss(weights: Any) -> Any:
            return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)

        return [w - 0.01 * g for w, g in zip(weights, library.grad(loss)(weights), strict=True)]

    step = library.jit(updated)
    weights = [jnp.ones((COLUMNS, COLUMNS)) / COLUMNS, jnp.ones(COLUMNS) / COLUMNS]
    for _ in range(STEPS):
        with holter.step():
            weights = step(weights)
            library.block_until_ready(weights)
    return str(weights[0].devices().pop().platform)


def tensorflow(device: str) -> str:
    """Train two layers with Keras on TensorFlow."""
    import os

    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import keras
    import tensorflow as library

    x, y = data()
    model = keras.Sequential([keras.layers.Dense(COLUMNS, "tanh"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x, y, batch_size=ROWS // STEPS, epochs=1, verbose=0)
    return "gpu" if library.config.list_physical_devices("GPU") else "cpu"


def main() -> None:
    """Train, and print on which device and how long."""
    name, device = sys.argv[1:3]
    began = time.perf_counter()
    ran_on = {"xgboost": xgboost, "jax": jax, "tensorflow": tensorflow}[name](device)
    print(json.dumps({"device": ran_on, "seconds": time.perf_counter() - began}))


main()
