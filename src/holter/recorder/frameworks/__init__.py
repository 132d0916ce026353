"""Adapters of frameworks, one file each: their contract, and the imports that attach them.

An adapter is a module with one function::

    def attach(session: Session) -> Callable[[], None]: ...

It is called once in a process, right after the framework's own top module was executed, and it
returns a function that takes every hook out again. Whatever it hooks, the framework's or the user's
function is called exactly once, with its own arguments, and its own exceptions pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session


class Adapter(Protocol):
    """What a module of this folder must offer."""

    def attach(self, session: Session) -> Callable[[], None]:
        """Hook the framework for `session`; return what unhooks it."""
