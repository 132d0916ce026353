"""Records the ranges that a script marks with NVTX: `torch.cuda.nvtx`, and the package `nvtx`.

The ranges go to NVTX as before. Ranges of domain objects (`nvtx.get_domain`) are compiled and are not seen.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holter.recorder.guard import tell
from holter.recorder.patches import Patches

if TYPE_CHECKING:
    from types import ModuleType

_NAMES = {
    "range_push": "push",
    "push_range": "push",
    "range_pop": "pop",
    "pop_range": "pop",
    "range_start": "start",
    "start_range": "start",
    "range_end": "end",
    "end_range": "end",
}
_MOST_STARTED = 4096
_patches = Patches()
_watched: set[str] = set()
_off = False


def watch(module: ModuleType) -> None:
    """Record the ranges of a module with functions of NVTX from now on. Idempotent."""
    if module.__name__ in _watched:
        return
    _watched.add(module.__name__)
    started: dict[Any, Any] = {}
    for name, kind in _NAMES.items():
        if name in vars(module):
            _patches.replace(module, name, _wrapper(vars(module)[name], kind, started))
    annotate = getattr(module, "annotate", None)
    if isinstance(annotate, type):
        _watch_class(annotate)


def stop() -> None:
    """Restore everything."""
    _patches.undo()
    _watched.clear()


def _watch_class(annotate: Any) -> None:
    """Record the ranges of `nvtx.annotate`: a `with` block or a decorator."""
    enter, leave, call = annotate.__enter__, annotate.__exit__, annotate.__call__

    def entered(self: Any) -> Any:
        result = enter(self)
        _do("push", _message(self))
        return result

    def left(self: Any, *raised: Any) -> Any:
        _do("pop", "")
        return leave(self, *raised)

    def called(self: Any, function: Any) -> Any:
        found = call(self, function)
        name = _message(self) or getattr(function, "__name__", "")
        return _do("wrapped", name, found) or found

    for name, ours in (("__enter__", entered), ("__exit__", left), ("__call__", called)):
        _patches.replace(annotate, name, ours)


def _message(one: Any) -> str:
    given = getattr(one, "init_args", (None,))[0]
    return "" if given is None else str(given)


def _wrapper(original: Any, kind: str, started: dict[Any, Any]) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if kind == "pop":
            _do("pop", "")
        elif kind == "end" and args and (one := started.pop(args[0], None)) is not None:
            one.__exit__(None, None, None)
        result = original(*args, **kwargs)
        if kind in ("push", "start"):
            given = args[0] if args else kwargs.get("msg", kwargs.get("message"))
            one = _do(kind, "" if given is None else str(given))
            if one is not None and len(started) < _MOST_STARTED:
                started[result] = one
        return result

    return wrapper


def _do(kind: str, name: str, function: Any = None) -> Any:
    """Record one call; a fault ends this, and never reaches the script."""
    global _off
    if _off:
        return None
    try:
        # When the first range comes, not before; it needs the recorder, which imports this module's caller.
        marked_ranges = import_module("holter.recorder.marked_ranges")
        if kind == "push":
            marked_ranges.begin(name, heard=True)
        elif kind == "pop":
            marked_ranges.end()
        elif kind == "start":
            return marked_ranges.interleaved(name)
        elif kind == "wrapped":
            return marked_ranges.wrapped(name, function)
    except Exception as error:
        _off = True
        tell(f"ranges of NVTX are no longer recorded: {type(error).__name__}: {error}")
    return None
