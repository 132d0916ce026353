"""Standard streams that survive a full disk, a closed terminal and a reader that ended."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _LossyFile(io.FileIO):
    """Writes to a descriptor; after the first failure, which it may raise, it drops all data."""

    def __init__(self, descriptor: int, *, raises: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.lost: OSError | None = None
        self._raises = raises

    def write(self, data: ReadableBuffer, /) -> int:
        """Write or drop the data; returns the number of bytes handled."""
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
        return size if written is None else written  # None: a non-blocking pipe without a reader


_files: dict[str, _LossyFile] = {}


def prepare(*, drops_output: bool) -> None:
    """Replace the standard streams, unless the caller has replaced them, so that errors end no command.

    Standard error drops text that cannot be written. So does standard output with `drops_output`; otherwise
    the first write that fails raises its `OSError`.
    """
    for descriptor in (0, 1, 2):
        # Otherwise the next file that holter opens would become a standard stream of the command. This
        # descriptor is not inherited, so the command finds the stream closed, as without holter.
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _stream("stderr", 2, sys.stderr, raises=False)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _stream("stdout", 1, sys.stdout, raises=not drops_output)


def lost() -> OSError | None:
    """Return the error of writing standard output; None without one."""
    file = _files.get("stdout")
    return None if file is None else file.lost


def _stream(name: str, descriptor: int, before: TextIO | None, *, raises: bool) -> TextIO:
    file = _files[name] = _LossyFile(descriptor, raises=raises)
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors=getattr(before, "errors", None) or "backslashreplace",
        line_buffering=not raises or os.isatty(descriptor),
    )
