"""Records Keras 3: one batch of `fit` is one step, whatever the backend computes.

`fitting` counts the steps and times evaluations, checkpoints and callbacks, `numbers` records what the
training reports; both work with every backend. `on_torch` shows the PyTorch adapter what its hooks cannot
see. `fused` times steps on JAX and TensorFlow, which are one compiled function; `on_jax` and
`on_tensorflow` find the wait for data inside of it. Classes are hooked. A callback in the user's list would
change the training: Keras then waits for the device at each batch.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from holter.recorder.frameworks.keras.fitting import Fitting
from holter.recorder.frameworks.keras.numbers import ReportedNumbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session


def attach(session: Session) -> Callable[[], None]:
    """Record Keras for `session`; return a function that removes every hook."""
    fitting = Fitting(session, sys.modules["keras"].__version__)
    parts: dict[str, Callable[[], None]] = {
        "steps": fitting.attach,
        "numbers": ReportedNumbers(session, fitting).attach,
        "torch": partial(_attach_to, "torch", session, fitting),
        "jax": partial(_attach_to, "jax", session, fitting),
        "tensorflow": partial(_attach_to, "tensorflow", session, fitting),
    }
    for name, part in parts.items():
        try:
            part()
        except Exception as error:  # this Keras lacks what is hooked; the other parts are recorded
            session.fault(f"keras.{name}", error)
    return fitting.patches.undo


def _attach_to(backend: str, session: Session, fitting: Fitting) -> None:
    """Record what only one backend has; what records the other backends is not loaded."""
    if f"keras.src.backend.{backend}.trainer" in sys.modules:
        module = import_module(f"{__name__}.on_{backend}")
        getattr(module, f"attach_to_{backend}")(session, fitting)
