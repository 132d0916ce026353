"""Records checkpoints of orbax and Flax, with what orbax writes in the background."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.frameworks.spans import timed
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.recorder.frameworks.jax.calls import CompiledCalls

_SAVES = (
    ("CheckpointManager", "save", "CheckpointManager.save"),
    ("CheckpointManager", "wait_until_finished", "wait for the checkpoint"),
    ("Checkpointer", "save", "Checkpointer.save"),
    ("AsyncCheckpointer", "save", "AsyncCheckpointer.save"),
    ("AsyncCheckpointer", "wait_until_finished", "wait for the checkpoint"),
    ("PyTreeCheckpointer", "save", "PyTreeCheckpointer.save"),
    ("StandardCheckpointer", "save", "StandardCheckpointer.save"),
)
"""Class and method in `orbax.checkpoint`, and the name of the span."""
_BACKGROUND = "orbax.checkpoint._src.checkpointers.async_checkpointer"
BACKGROUND = "checkpoint in the background"


def watch_checkpoints(calls: CompiledCalls) -> None:
    """Hook the libraries once they are loaded."""
    session, patches = calls.session, calls.patches
    breaker = session.breaker("jax.checkpoint")

    def time(owner: Any, function: str, name: str, *, sized: bool) -> None:
        if function in vars(owner):
            value = _size if sized else None
            patches.wrap(
                owner,
                function,
                lambda original: timed(session, breaker, original, Phase.CHECKPOINT, name, value=value),
            )

    def orbax(module: str) -> None:
        try:
            for owner, function, name in _SAVES:
                found = getattr(sys.modules[module], owner, None)
                if found is not None:
                    time(found, function, name, sized=function == "save")
            manager = getattr(sys.modules.get(_BACKGROUND), "_AsyncManager", None)
            if manager is not None:  # runs in a thread of its own
                time(manager, "_thread_func", BACKGROUND, sized=True)
        except Exception as error:
            breaker.fault(error)

    def flax(module: str) -> None:
        try:
            for function in ("save_checkpoint", "save_checkpoint_multiprocess"):
                time(sys.modules[module], function, function, sized=True)
        except Exception as error:
            breaker.fault(error)

    imports.when_imported("orbax.checkpoint", orbax)
    imports.when_imported("flax.training.checkpoints", flax)


def _size(args: tuple[Any, ...], kwargs: Mapping[str, object]) -> float:
    """Return the size in bytes of the folder that an argument names; NaN without one, or before it exists."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, (str, os.PathLike)) and os.path.isdir(path := os.fsdecode(value)):
            return float(
                sum(
                    os.path.getsize(os.path.join(folder, file))
                    for folder, _, files in os.walk(path)
                    for file in files
                )
            )
    return float("nan")
