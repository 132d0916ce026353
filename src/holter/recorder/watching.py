"""Saves tensors from inside the script: `holter.watch` and `holter.save_tensor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder import session as _session
from holter.recorder.tensors.collections import check_role
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
    imports.use("torch")
    current = _session.current
    if current is not None and current.watch is not None:
        current.watch(collections, model)


def save_tensor(name: str, tensor: Any, role: str = "custom") -> None:
    """Save a tensor that the script made, at the current step and mode: labels, predictions, counts.

    Kept are its statistics, and its elements when they are at most 16384. A tensor that something asked for
    describes (`--save /regex/@10`, `--save role=labels@10`) is saved when that is due; any other at each
    call. From any thread. Does nothing in a process that is not recorded.

    Args:
        name: What it is called, exactly as given.
        tensor: A tensor, or what makes one: an array, a number, a list of numbers. Where no framework is
            loaded, at most 1,048,576 elements.
        role: What it is, so that rules find it: `labels`, `predictions`, `token_ids`, …

    Raises:
        ValueError: An empty name, or an unknown role.
    """
    if not name:
        raise ValueError("a tensor is saved under a name; the one given is empty")
    check_role(role)
    imports.use("torch")
    current = _session.current
    if current is not None:
        if current.explicit is None:  # no framework is loaded that has tensors of its own
            from holter.recorder.tensors.explicit import ExplicitSaver

            current.explicit = ExplicitSaver(current)
        current.explicit.save(name, tensor, role)
