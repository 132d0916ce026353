"""Records TensorFlow 2: loops of the script, traces of `tf.function`, tf.data pipelines, and checkpoints.

Keras is recorded by an adapter of its own, which uses `pipelines` and `traces` of this one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holter.recorder import imports
from holter.recorder.frameworks.tensorflow.checkpoints import Checkpoints
from holter.recorder.frameworks.tensorflow.eager import Eager
from holter.recorder.frameworks.tensorflow.loops import Loops
from holter.recorder.frameworks.tensorflow.pipelines import Pipelines
from holter.recorder.frameworks.tensorflow.traces import Traces
from holter.recorder.patches import Patches

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

_OPTIMIZERS, _MODELS = "keras.src.optimizers.base_optimizer", "keras.src.models.model"


def attach(session: Session) -> Callable[[], None]:
    """Record TensorFlow for `session`; return a function that removes every hook."""
    patches, pipelines = Patches(), Pipelines(session)
    breaker = session.breaker("tensorflow")
    loops = Loops(session, pipelines, patches, sys.modules["tensorflow"].__version__)
    eager = Eager(loops)

    def watch_keras(module: str) -> None:
        try:
            if "keras.src.backend.tensorflow" not in sys.modules:
                return  # Keras computes with another framework, and the script reads its data with tf.data
            if module == _OPTIMIZERS:
                eager.attach_optimizer(sys.modules[module].BaseOptimizer)
            else:
                eager.attach_model(sys.modules[module].Model)
        except Exception as error:
            session.fault("tensorflow.keras", error)

    parts: dict[str, Callable[[], None]] = {
        "loops": loops.attach,
        "eager": eager.attach,
        "traces": Traces(session, patches, breaker).attach,
        "checkpoints": Checkpoints(session, patches, breaker).attach,
        "optimizers": lambda: imports.when_imported(_OPTIMIZERS, watch_keras),
        "models": lambda: imports.when_imported(_MODELS, watch_keras),
    }
    for name, part in parts.items():
        try:
            part()
        except Exception as error:  # this TensorFlow lacks what is hooked; the other parts are recorded
            session.fault(f"tensorflow.{name}", error)
    session.pipelines = pipelines

    def detach() -> None:
        session.pipelines = None
        patches.undo()

    return detach
