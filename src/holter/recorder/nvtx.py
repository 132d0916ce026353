"""Passes annotations on to NVTX while a tool listens to it: Nsight Systems, Nsight Compute."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from holter.recorder.guard import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

INJECTED = ("NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH")
"""Variables with which a tool makes NVTX load it; without one, no tool gets ranges."""
LIBRARIES = ("libnvToolsExt.so.1", "libnvToolsExt.so")
_FUNCTIONS = ("range_push", "range_pop", "range_start", "range_end")


class Listener:
    """Passes ranges to a tool. The first failure is reported, and ends this."""

    def __init__(self) -> None:
        self._functions: Any = None
        self._off = False
        self._open = threading.local()

    def push(self, name: str) -> None:
        """Begin a `with` block on this thread."""
        self._do(lambda nvtx: nvtx.range_push(name))

    def pop(self) -> None:
        """End it."""
        self._do(lambda nvtx: nvtx.range_pop())

    def start(self, name: str) -> Any:
        """Begin a range that need not nest; return the argument of `end`."""
        return self._do(lambda nvtx: nvtx.range_start(name))

    def end(self, handle: Any) -> None:
        """End a range of `start`."""
        if handle is not None:
            self._do(lambda nvtx: nvtx.range_end(handle))

    def begin_named(self, name: str) -> None:
        """Begin a range of `annotation_begin` on this thread."""
        self._stack().append((name, self.start(name)))

    def end_named(self, name: str | None) -> None:
        """End the innermost range of `annotation_begin` on this thread, or the innermost called `name`."""
        stack = self._stack()
        for at in reversed(range(len(stack))):
            if name is None or stack[at][0] == name:
                self.end(stack.pop(at)[1])
                return

    def _stack(self) -> list[tuple[str, Any]]:
        stack: list[tuple[str, Any]] = self._open.__dict__.setdefault("stack", [])
        return stack

    def _do(self, call: Callable[[Any], Any]) -> Any:
        if self._off:
            return None
        try:
            if self._functions is None:
                self._functions = _find()
            return call(self._functions)
        except Exception as error:
            self._off = True
            tell(f"annotations do not reach NVTX: {type(error).__name__}: {error}")
            return None


class _Library:
    """The shared library NVTX 2, with the functions of `torch.cuda.nvtx`."""

    def __init__(self, library: Any) -> None:
        self._library = library
        for function in (library.nvtxRangePushA, library.nvtxRangeStartA):
            function.argtypes = [ctypes.c_char_p]
        library.nvtxRangePushA.restype = library.nvtxRangePop.restype = ctypes.c_int
        library.nvtxRangeStartA.restype = ctypes.c_uint64
        library.nvtxRangeEnd.argtypes = [ctypes.c_uint64]
        library.nvtxRangeEnd.restype = None
        self.range_pop, self.range_end = library.nvtxRangePop, library.nvtxRangeEnd

    def range_push(self, name: str) -> Any:
        return self._library.nvtxRangePushA(name.encode())

    def range_start(self, name: str) -> int:
        return int(self._library.nvtxRangeStartA(name.encode()))


def listener(environ: Mapping[str, str] = os.environ) -> Listener | None:
    """Return a listener for annotations; None when no tool listens."""
    return Listener() if any(environ.get(name) for name in INJECTED) else None


def _find() -> Any:
    """Return torch's NVTX functions if torch is built with CUDA, else the shared library.

    Raises:
        OSError: Neither exists.
    """
    torch = sys.modules.get("torch")
    if torch is not None and getattr(torch._C, "_nvtx", None) is not None:
        found = [
            getattr(torch.cuda.nvtx, name) for name in ("range_push", "range_pop", "range_start", "range_end")
        ]
        # Not the wrappers that record a script's own calls.
        push, pop, start, end = (getattr(one, "__wrapped__", one) for one in found)
        return SimpleNamespace(range_push=push, range_pop=pop, range_start=start, range_end=end)
    for name in LIBRARIES:
        try:
            return _Library(ctypes.CDLL(name))
        except OSError:
            continue
    raise OSError(f"neither {LIBRARIES[0]} nor a torch that is built with CUDA is here")
