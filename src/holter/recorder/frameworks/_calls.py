"""Times methods of callbacks and loggers by name, on their classes: the user's lists stay as they are."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.spans import timed
from holter.recorder.patches import preceded
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holter.recorder.guard import CircuitBreaker
    from holter.recorder.patches import Patches
    from holter.recorder.session import Session


class Calls:
    """Records calls of chosen methods as annotations, named like `callback EarlyStopping.on_epoch_end`."""

    def __init__(self, session: Session, patches: Patches, breaker: CircuitBreaker) -> None:
        self._session, self._patches, self._breaker = session, patches, breaker
        self._timed: set[Callable[..., Any]] = set()
        """Our wrappers. A class that inherits one is timed already."""
        self._seen: set[tuple[type, str]] = set()
        self._inside: set[int] = set()
        """Ids of the objects whose methods run: a method of the base class belongs to the outer call."""

    def watch(
        self,
        one: object,
        kind: str,
        methods: Iterable[str],
        base: type | None = None,
        heard: Callable[..., object] | None = None,
    ) -> None:
        """Time methods of the class of an object from now on, but not those that do what `base` does.

        `heard` is called before each of these calls with the same arguments.
        """
        cls = type(one)
        if (cls, kind) in self._seen:
            return
        self._seen.add((cls, kind))
        for method in methods:
            found = inspect.getattr_static(cls, method, None)
            if not isinstance(found, FunctionType) or found in self._timed:
                continue
            if base is None or found is not inspect.getattr_static(base, method, None):
                ours = self._wrap(found, kind)
                if heard is not None:
                    ours = preceded(ours, heard, self._breaker)
                self._patches.replace(cls, method, ours)
                self._timed.add(ours)

    def _wrap(self, original: FunctionType, kind: str) -> Callable[..., Any]:
        inside, method = self._inside, original.__name__
        names: dict[type, str] = {}

        def name(one: Any, *_: object, **__: object) -> str:
            if id(one) in inside:
                return ""
            inside.add(id(one))
            cls = type(one)
            return names.get(cls) or names.setdefault(cls, f"{kind} {cls.__qualname__}.{method}")

        def ended(one: Any, *_: object, **__: object) -> None:
            inside.discard(id(one))

        return timed(self._session, self._breaker, original, Phase.ANNOTATION, name, ended=ended)
