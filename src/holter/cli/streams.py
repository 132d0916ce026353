"""Standard streams that may be closed, full, or without a reader: what cannot be said is dropped."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Outlet(io.FileIO):
    """Writes to a descriptor; after the first failure, which it may raise, it drops what is written."""

    def __init__(self, descriptor: int, *, raises: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.lost: OSError | None = None
        self._raises = raises

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, or drop; returns how many bytes are dealt with."""
        size = memoryview(data).nbytes
        if self.lost is not None:
            return size
        try:
            written = super().write(data)
        except OSError as error:
            self.lost = error
            if self._raises:
                raise
            return size
        return size if written is None else written  # None: nobody reads, and the pipe does not block


_outlets: dict[str, _Outlet] = {}


def prepare(*, drops_output: bool) -> None:
    """Make the standard streams ones that end no command, unless somebody has replaced them.

    What cannot be written to standard error is dropped. So is what cannot be written to standard output
    where that is not what the command is for; otherwise the first such write raises its `OSError`.
    """
    for descriptor in (0, 1, 2):
        # Else a file that we open next would be the standard stream of whatever we start. This is not
        # inherited, so a command that we start finds the stream closed, as it would without us.
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _stream("stderr", 2, sys.stderr, raises=False)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _stream("stdout", 1, sys.stdout, raises=not drops_output)


def lost() -> OSError | None:
    """Return why standard output could not be written."""
    outlet = _outlets.get("stdout")
    return None if outlet is None else outlet.lost


def _stream(name: str, descriptor: int, before: TextIO | None, *, raises: bool) -> TextIO:
    outlet = _outlets[name] = _Outlet(descriptor, raises=raises)
    return io.TextIOWrapper(
        io.BufferedWriter(outlet),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors=getattr(before, "errors", None) or "backslashreplace",
        line_buffering=not raises or os.isatty(descriptor),
    )
