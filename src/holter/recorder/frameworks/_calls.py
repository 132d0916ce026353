"""Times methods of callbacks and loggers by name, on their classes: the user's lists stay as they are."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from holter.recorder.patches import hide
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holter.recorder.guard import CircuitBreaker
    from holter.recorder.patches import Patches
    from holter.recorder.session import Session

_ANNOTATION = int(Phase.ANNOTATION)


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
                self._patches.replace(cls, method, self._wrap(found, kind, heard))
                self._timed.add(inspect.getattr_static(cls, method))

    def _wrap(
        self, original: FunctionType, kind: str, heard: Callable[..., object] | None
    ) -> Callable[..., Any]:
        session, breaker, inside = self._session, self._breaker, self._inside
        codes: dict[type, int] = {}
        method = original.__name__

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            code = 0
            if breaker.on and id(self) not in inside:
                try:
                    code = codes.get(type(self)) or codes.setdefault(
                        type(self),
                        session.name(f"{kind} {type(self).__qualname__}.{method}") << 8 | _ANNOTATION,
                    )
                    session.local.begin(code)
                    inside.add(id(self))
                    if heard is not None:
                        heard(self, *args, **kwargs)
                except Exception as error:
                    breaker.fault(error)
            try:
                return original(self, *args, **kwargs)
            except BaseException as error:
                if code:
                    session.note_failing(error, code)
                hide(error)
                raise
            finally:
                if code:
                    inside.discard(id(self))
                    try:
                        session.local.end_of(code)
                    except Exception as error:
                        breaker.fault(error)

        return wrapper
