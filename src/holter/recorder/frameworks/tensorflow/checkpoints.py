"""Records checkpoints of TensorFlow: `tf.train.Checkpoint`, its manager, and saved models."""

from __future__ import annotations

import glob
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.spans import timed
from holter.recorder.frameworks.written import size_written
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.recorder.guard import CircuitBreaker
    from holter.recorder.patches import Patches
    from holter.recorder.session import Session


class Checkpoints:
    """Times the outermost call that writes a checkpoint; a manager prepares and deletes files as well."""

    def __init__(self, session: Session, patches: Patches, breaker: CircuitBreaker) -> None:
        self._session, self._patches, self._breaker = session, patches, breaker
        self._saving = False
        self._prefix = ""
        """What the names of the files of the newest checkpoint begin with."""

    def attach(self) -> None:
        """Hook what writes checkpoints."""
        checkpoint = sys.modules["tensorflow.python.checkpoint.checkpoint"].Checkpoint
        manager = sys.modules["tensorflow.python.checkpoint.checkpoint_management"].CheckpointManager
        self._patches.after(checkpoint, "_write", self._written, self._breaker)
        for owner, method in ((checkpoint, "save"), (checkpoint, "write"), (manager, "save")):
            name = f"tf.train.{owner.__name__}"
            self._patches.wrap(owner, method, partial(self._timed, name=name, size=self._size))
        saved = sys.modules["tensorflow"].saved_model
        self._patches.wrap(saved, "save", partial(self._timed, name="tf.saved_model.save", size=size_written))

    def _timed(self, original: Any, name: str, size: Callable[..., float]) -> Callable[..., Any]:
        def outermost(*_: object, **__: object) -> str:
            if self._saving:
                return ""
            self._saving = True
            return name

        def ended(*_: object, **__: object) -> None:
            self._saving = False

        return timed(
            self._session, self._breaker, original, Phase.CHECKPOINT, outermost, value=size, ended=ended
        )

    def _written(self, prefix: Any, *_: object, **__: object) -> None:
        self._prefix = os.fspath(prefix) if isinstance(prefix, (str, os.PathLike)) else ""

    def _size(self, args: tuple[Any, ...], kwargs: Mapping[str, object]) -> float:
        """Return the size of the files of the newest checkpoint."""
        files = glob.glob(f"{glob.escape(self._prefix)}.*") if self._prefix else []
        return float(sum(map(os.path.getsize, files))) if files else float("nan")
