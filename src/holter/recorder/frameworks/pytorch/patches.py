"""Replaces functions of the framework by wrappers, and restores them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from holter.recorder.failure import PASSED_OVER

if TYPE_CHECKING:
    from collections.abc import Callable

_ABSENT = object()


def passed_over(ours: Callable[..., Any]) -> Callable[..., Any]:
    """Let `warnings` pass over the frames of a wrapper: they name the line that they would name without us.

    With `stacklevel`, Python counts no frame of its import system, which it knows by two words in the file.
    """
    code = ours.__code__
    if not code.co_filename.endswith(PASSED_OVER):
        ours.__code__ = code.replace(co_filename=code.co_filename + PASSED_OVER)
    return ours


def hide(error: BaseException) -> None:
    """Take the frame that has just caught `error`, a wrapper that raises it again, out of its traceback.

    Python 3.10 keeps what a bare `raise` goes on with apart, so there only `clear` helps.
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


class Patches:
    """Attributes that were replaced, in order, so that they can be put back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> bool:
        """Put `make(original)` in the place of `owner.name`; return False when there is no such thing."""
        original = getattr(owner, name, None)
        if original is None:
            return False
        self.replace(owner, name, make(original))
        return True

    def replace(self, owner: Any, name: str, ours: Callable[..., Any]) -> None:
        """Put `ours` in the place of the function `owner.name`.

        The replacement looks like the original (name, module, documentation, signature), so that
        what is pickled by name, such as a process's target, is found under the same name elsewhere.
        """
        original = getattr(owner, name)
        before = vars(owner).get(name, _ABSENT)
        functools.update_wrapper(passed_over(ours), original)
        setattr(owner, name, ours)

        def undo() -> None:
            # Somebody may have wrapped ours since; then it stays, and passes calls through.
            if vars(owner).get(name) is not ours:
                return
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self._undo.append(undo)

    def later(self, undo: Callable[[], None]) -> None:
        """Run `undo` when everything is taken out."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Put everything back, the newest first."""
        while self._undo:
            self._undo.pop()()
