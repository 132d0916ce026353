"""Reads the planned number of steps from a trainer when its training begins, and journals it once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.patches import Patches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.recorder.session import Session

_MAX_STEPS = 2**53


def watch(
    session: Session,
    begins: Sequence[tuple[str, str, str]],
    read_plan: Callable[..., tuple[str, float, float]],
) -> Callable[[], None]:
    """Journal the plan of a trainer whenever its training begins; return a function that removes the hooks.

    Args:
        session: Receives a fact of kind `planned`: `trainer` and `steps`, the step number of this process at
            which the training ends.
        begins: Module, class and method of each function that a trainer calls when a training begins.
        read_plan: Gets the arguments of that method. Returns the trainer's name, its last step, and its first
            step, which is above 0 when a checkpoint is resumed. A last step below 1 means that it is open.
    """
    patches, breaker = Patches(), session.breaker("planned")

    def begins_now(result: object, *args: Any, **kwargs: Any) -> None:
        trainer, last, first = read_plan(*args, **kwargs)
        if 0 < last - first < _MAX_STEPS:  # excludes infinity and NaN
            session.journal("planned", {"trainer": trainer, "steps": session.step + int(last - first)})

    for module, owner, method in begins:
        found = getattr(sys.modules.get(module), owner, None)
        if found is not None:
            patches.after(found, method, begins_now, breaker)
    return patches.undo
