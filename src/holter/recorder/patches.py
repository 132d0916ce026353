"""Replaces functions of a framework by wrappers, and restores them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.guard import CircuitBreaker

PASSED_OVER = " (importlib _bootstrap)"
"""Suffix of the file names of the recorder's wrappers."""
_ABSENT = object()


def passed_over(ours: Callable[..., Any]) -> Callable[..., Any]:
    """Make `warnings` skip the frames of a wrapper, so that a warning names the same line as without it.

    For `stacklevel`, Python skips the frames of its import system, which it recognizes by two words in the
    file name.
    """
    code = ours.__code__
    if not code.co_filename.endswith(PASSED_OVER):
        ours.__code__ = code.replace(co_filename=code.co_filename + PASSED_OVER)
    return ours


def hide(error: BaseException) -> None:
    """Remove the calling frame, a wrapper that raises `error` again, from the traceback of `error`.

    Python 3.10 stores the traceback of a bare `raise` elsewhere, so there only `failure.clear` helps.
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


def preceded(
    original: Callable[..., Any], call: Callable[..., object], breaker: CircuitBreaker
) -> Callable[..., Any]:
    """Wrap `original` so that `call` runs before it with the same arguments; `breaker` counts its faults."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if breaker.on:
            try:
                call(*args, **kwargs)
            except Exception as error:
                breaker.fault(error)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise

    return wrapper


def followed(
    original: Callable[..., Any], call: Callable[..., object], breaker: CircuitBreaker
) -> Callable[..., Any]:
    """Wrap `original` so that `call` runs after it with the result and the arguments."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise
        if breaker.on:
            try:
                call(result, *args, **kwargs)
            except Exception as error:
                breaker.fault(error)
        return result

    return wrapper


class Patches:
    """Attributes that were replaced, in order, so that they can be restored."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> bool:
        """Replace `owner.name` by `make(original)`; return False when the attribute does not exist."""
        original = getattr(owner, name, None)
        if original is None:
            return False
        self.replace(owner, name, make(original))
        return True

    def before(self, owner: Any, name: str, call: Callable[..., object], breaker: CircuitBreaker) -> None:
        """Run `call` before each call of `owner.name`; see `preceded`."""
        self.wrap(owner, name, lambda original: preceded(original, call, breaker))

    def after(self, owner: Any, name: str, call: Callable[..., object], breaker: CircuitBreaker) -> None:
        """Run `call` after each call of `owner.name`; see `followed`."""
        self.wrap(owner, name, lambda original: followed(original, call, breaker))

    def replace(self, owner: Any, name: str, ours: Callable[..., Any]) -> None:
        """Replace the function `owner.name` by `ours`.

        The replacement has the original's name, module, documentation and signature, so that another process
        can unpickle it by name.
        """
        original = getattr(owner, name)
        before = vars(owner).get(name, _ABSENT)
        functools.update_wrapper(passed_over(ours), original)
        setattr(owner, name, ours)

        def undo() -> None:
            # Another library may have wrapped ours since. Ours then stays and passes calls through.
            if vars(owner).get(name) is not ours:
                return
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self._undo.append(undo)

    def later(self, undo: Callable[[], None]) -> None:
        """Run `undo` when everything is restored."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Restore everything, the newest first."""
        while self._undo:
            self._undo.pop()()
