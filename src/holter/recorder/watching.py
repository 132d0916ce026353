"""Save tensors of a model from inside the script: `holter.watch(model, save=["gradients"], every=100)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder import session as _session
from holter.recorder.tensors.requests import DEFAULT_EVERY, requests

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT = ("losses", "gradients", "weights")


def watch(model: Any = None, save: Sequence[str] = DEFAULT, every: int = DEFAULT_EVERY) -> None:
    """Save tensors of `model`, and of all models that the loop calls, from the current step on.

    What is asked for again under the same name replaces what was asked for before. Does nothing in a process
    that is not recorded.

    Args:
        model: Names its parameters before it is first called; may be left out.
        save: What, each as `--save` takes it: `gradients`, `weights@50:histogram`, `/regex/:raw`.
        every: The interval, in steps, of those that name none.

    Raises:
        ValueError: One of `save` cannot be read; the text says which, what is valid, and what is nearest.
    """
    collections = requests([save] if isinstance(save, str) else save, every)
    current = _session.current
    if current is not None and current.watch is not None:
        current.watch(collections, model)
