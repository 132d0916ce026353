"""Records TensorFlow 2: loops of the script, traces of `tf.function`, tf.data pipelines, and checkpoints.

Keras is recorded by an adapter of its own, which uses `pipelines` and `traces` of this one.
"""

from __future__ import annotations

import glob
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.frameworks.spans import timed
from holter.recorder.frameworks.tensorflow.loops import Loops
from holter.recorder.frameworks.tensorflow.pipelines import Pipelines
from holter.recorder.frameworks.tensorflow.traces import Traces
from holter.recorder.frameworks.written import size_written
from holter.recorder.patches import Patches
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.recorder.session import Session

_OPTIMIZERS = "keras.src.optimizers.base_optimizer"


def attach(session: Session) -> Callable[[], None]:
    """Record TensorFlow for `session`; return a function that removes every hook."""
    patches, pipelines = Patches(), Pipelines(session)
    breaker = session.breaker("tensorflow")
    loops = Loops(session, pipelines, patches, sys.modules["tensorflow"].__version__)

    def watch_iterators() -> None:
        iterator = sys.modules["tensorflow.python.data.ops.iterator_ops"].OwnedIterator
        patches.after(iterator, "__init__", pipelines.made, breaker)

    def watch_checkpoints() -> None:
        checkpoint = sys.modules["tensorflow.python.checkpoint.checkpoint"].Checkpoint
        wrap = partial(timed, session, breaker, phase=Phase.CHECKPOINT)
        patches.wrap(checkpoint, "_write", partial(wrap, name="tf.train.Checkpoint", value=_size_of_prefix))
        saved = sys.modules["tensorflow"].saved_model
        patches.wrap(saved, "save", partial(wrap, name="tf.saved_model.save", value=size_written))

    def watch_optimizers(module: str) -> None:
        try:
            loops.attach_keras(sys.modules[module].BaseOptimizer)
        except Exception as error:
            session.fault("tensorflow.optimizers", error)

    parts: dict[str, Callable[[], None]] = {
        "iterators": watch_iterators,
        "loops": loops.attach,
        "traces": Traces(session, patches, breaker).attach,
        "checkpoints": watch_checkpoints,
        "optimizers": lambda: imports.when_imported(_OPTIMIZERS, watch_optimizers),
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


def _size_of_prefix(args: tuple[Any, ...], kwargs: Mapping[str, object]) -> float:
    """Return the size of the files of a checkpoint, whose names begin with the prefix that is given."""
    prefix = kwargs.get("file_prefix", args[1] if len(args) > 1 else None)
    if not isinstance(prefix, (str, os.PathLike)):
        return float("nan")
    return float(sum(map(os.path.getsize, glob.glob(f"{glob.escape(os.fspath(prefix))}.*"))))
