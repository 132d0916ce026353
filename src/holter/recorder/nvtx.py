"""Passes annotations on to NVTX while a tool listens to it: Nsight Systems, Nsight Compute."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol

from holter.recorder.guard import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

INJECTED = ("NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH")
"""Variables by which a tool makes NVTX load it; without one, whatever is pushed goes nowhere."""
LIBRARIES = ("libnvToolsExt.so.1", "libnvToolsExt.so")


class _Functions(Protocol):
    """NVTX, however it is reached."""

    def range_push(self, name: str) -> Any:
        """Begin a range of this thread within those that are open."""

    def range_pop(self) -> Any:
        """End the innermost range of this thread."""

    def range_start(self, name: str) -> int:
        """Begin a range that need not nest; returns what ends it."""

    def range_end(self, handle: int) -> Any:
        """End it."""


class Listener:
    """Tells a tool of ranges. What fails is told once, and nothing is handed over from then on."""

    def __init__(self) -> None:
        self._functions: _Functions | None = None
        self._off = False
        self._open = threading.local()

    def push(self, name: str) -> None:
        """A `with` block begins on this thread."""
        self._do(lambda nvtx: nvtx.range_push(name))

    def pop(self) -> None:
        """It ends."""
        self._do(lambda nvtx: nvtx.range_pop())

    def start(self, name: str) -> Any:
        """A range begins that need not nest; returns what `end` takes."""
        return self._do(lambda nvtx: nvtx.range_start(name))

    def end(self, handle: Any) -> None:
        """End what `start` returned."""
        if handle is not None:
            self._do(lambda nvtx: nvtx.range_end(handle))

    def begin_named(self, name: str) -> None:
        """`annotation_begin` on this thread."""
        self._stack().append((name, self.start(name)))

    def end_named(self, name: str | None) -> None:
        """`annotation_end` on this thread: the innermost, or the innermost called `name`."""
        stack = self._stack()
        for at in reversed(range(len(stack))):
            if name is None or stack[at][0] == name:
                self.end(stack.pop(at)[1])
                return

    def _stack(self) -> list[tuple[str, Any]]:
        try:
            return self._open.stack  # type: ignore[no-any-return]
        except AttributeError:
            self._open.stack = []
            return self._open.stack  # type: ignore[no-any-return]

    def _do(self, call: Callable[[_Functions], Any]) -> Any:
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
    """NVTX 2, the shared library."""

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
    """Return what annotations are handed to; None when no tool listens."""
    return Listener() if any(environ.get(name) for name in INJECTED) else None


def _find() -> _Functions:
    """Return NVTX as torch brings it, where torch is there and built with it; else the library itself.

    Raises:
        OSError: Neither is there.
    """
    torch = sys.modules.get("torch")
    if torch is not None and getattr(torch._C, "_nvtx", None) is not None:
        found: _Functions = torch.cuda.nvtx
        return found
    for name in LIBRARIES:
        try:
            return _Library(ctypes.CDLL(name))
        except OSError:
            continue
    raise OSError(f"neither {LIBRARIES[0]} nor a torch that is built with CUDA is here")
