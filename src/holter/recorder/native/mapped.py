"""Maps the recorder's files so that their truncation does not end the training: `mapped.c`.

Where that was not compiled, such a truncation is a SIGBUS, as it is for every program that maps a file.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holter.schema.compiled import load

if TYPE_CHECKING:
    from collections.abc import Callable

_told = 0


@functools.cache
def compiled() -> Any:
    """Return the library that keeps the training alive; None where it was not compiled."""
    library = load(Path(__file__).with_name("mapped.c"))
    if library is not None:
        library.holter_mapped_keep.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        library.holter_mapped_forget.argtypes = [ctypes.c_void_p]
        library.holter_mapped_forget.restype = None
    return library


class Mapped(mmap.mmap):
    """A mapped file that may be truncated."""

    _address = 0

    def keep(self) -> None:
        """Make writes beyond the end of the file harmless from now on; they are lost."""
        if (library := compiled()) is not None:
            address = ctypes.addressof(ctypes.c_char.from_buffer(self))
            if library.holter_mapped_keep(address, len(self)):
                self._address = address

    def __del__(self) -> None:
        """Forget the address before another mapping may use it."""
        if self._address:
            compiled().holter_mapped_forget(self._address)


def tell_lost(fault: Callable[[str, BaseException], None]) -> None:
    """Call `fault` when pages of ours were cut away since it was last called."""
    global _told
    if (library := compiled()) is None:
        return
    lost = ctypes.c_int64.in_dll(library, "holter_mapped_lost").value
    if lost > _told:
        _told = lost
        fault("spool", OSError(f"files of the recorder were truncated; {lost} pages of records are lost"))
