"""Finds the size of a checkpoint: that of the file or folder that an argument names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def size_written(args: tuple[Any, ...], kwargs: Mapping[str, object]) -> float:
    """Return the size in bytes of the file or folder that an argument names; NaN without one."""
    for value in (*args, *kwargs.values()):
        if not isinstance(value, (str, os.PathLike)):
            continue
        path = os.fsdecode(value)
        if os.path.isfile(path):
            return float(os.path.getsize(path))
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                return float(sum(entry.stat().st_size for entry in entries if entry.is_file()))
    return float("nan")
