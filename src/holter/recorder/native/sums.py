"""Loads `sums.c`: all sums of a tensor in one pass, where it is compiled."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

from holter.schema.compiled import load

FIELDS = (
    *("low", "high", "total", "squares", "absolute", "change", "change_squares", "largest"),
    *("zeros", "small", "odd"),
)
"""What `holter_sums` finds, in its order."""
TYPES = ("float32", "bfloat16", "float16")
"""Of what, in the order of its numbers."""


@functools.cache
def compiled() -> Any:
    """Return `holter_sums(now, before, count, smallest normal number, type, results)`; None if not compiled.

    `results` is memory for `FIELDS`, in double.
    """
    library = load(Path(__file__).with_name("sums.c"))
    if library is None:
        return None
    found = library.holter_sums
    address = ctypes.c_void_p
    found.argtypes = [address, address, ctypes.c_int64, ctypes.c_float, ctypes.c_int32, address]
    found.restype = None
    return found
