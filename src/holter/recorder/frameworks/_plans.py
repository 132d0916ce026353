"""Reads the planned number of steps from a trainer when its training begins, and journals it once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.patches import Patches, hide

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.recorder.session import Session

_MOST = 2**53


def watch(
    session: Session,
    begins: Sequence[tuple[str, str, str]],
    told: Callable[..., tuple[str, float, float]],
) -> Callable[[], None]:
    """Note what a trainer plans whenever its training begins; return what takes the hooks out again.

    Args:
        session: Where it is noted, as a fact of kind `planned`: `trainer` and `steps`, the steps of this
            process when the training will be done.
        begins: Module, class and method; each that is there is called at the begin of a training.
        told: Gets what the method got; returns the trainer's name, its last step, and the step it begins
            with, which is not 0 where a checkpoint is resumed. A last step below 1 means that it has none.
    """
    patches, breaker = Patches(), session.breaker("planned")

    def make(original: Any) -> Callable[..., Any]:
        def begin(*args: Any, **kwargs: Any) -> Any:
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            try:
                trainer, last, first = told(*args, **kwargs)
                if 0 < last - first < _MOST:  # also neither infinite nor NaN
                    session.journal(
                        "planned", {"trainer": trainer, "steps": session.step + int(last - first)}
                    )
            except Exception as error:
                breaker.fault(error)
            return result

        return begin

    for module, owner, method in begins:
        found = getattr(sys.modules.get(module), owner, None)
        if found is not None:
            patches.wrap(found, method, make)
    return patches.undo
