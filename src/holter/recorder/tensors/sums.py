"""One pass over a tensor instead of ten, where a C compiler is at hand: compiled once, kept, loaded by jobs.

`compiled` is called before a job that saves tensors, never by a training; `load` by the training, which goes
on without where there is nothing that it trusts: a file of this user that no other may write, made from this
source for this processor.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

from holter.schema.compiling import Compiled

FIELDS = (
    *("low", "high", "total", "squares", "absolute", "change", "change_squares", "largest"),
    *("zeros", "small", "odd"),
)
"""What `holter_sums` finds, in its order."""
_COMPILED = Compiled(Path(__file__).with_name("sums.c"), effort="-O3")


def path() -> Path:
    """Return where the compiled file lies for this processor."""
    return _COMPILED.path()


def compiled() -> bool:
    """Compile it if that was not done before; return whether it is there. Takes less than a second, once."""
    return _COMPILED.compile()


@functools.cache
def load() -> Any:
    """Return `holter_sums` as a function of addresses, elements, and room for `FIELDS`; None without it."""
    library = _COMPILED.load()
    try:
        found = library.holter_sums
    except AttributeError:
        return None
    address = ctypes.c_void_p
    found.argtypes = [address, address, ctypes.c_int64, ctypes.c_float, address]
    found.restype = None
    return found
