"""Loads C functions that the build has compiled next to their source (`hatch_build.py`)."""

from __future__ import annotations

import ctypes
import hashlib
import os
from typing import TYPE_CHECKING, Any

from holter.schema.record import ENV_COMPILE

if TYPE_CHECKING:
    from pathlib import Path


def path(source: Path) -> Path:
    """Return where a source lies when it is compiled: its name says from what, so that no older one is loaded.

    Raises:
        OSError: The source cannot be read.
    """
    return source.with_name(f"{source.stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.so")


def load(source: Path) -> Any:
    """Return the library that was made from a source; None without one, and with `HOLTER_COMPILE=0`."""
    if os.environ.get(ENV_COMPILE) == "0":
        return None
    try:
        return ctypes.CDLL(str(path(source)))
    except OSError:
        return None
