"""Writes frames of stacks as text, and tells the user's code from that of libraries."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any


def is_library(code: CodeType) -> bool:
    """Return whether code belongs to an installed package or to Python."""
    name = code.co_filename
    return "site-packages" in name or name.startswith((sys.prefix, sys.base_prefix, "<frozen"))


def frame_text(code: CodeType, line: int) -> str:
    """Return a frame as `name (file:line)`, without the separator of frames."""
    name: Any = getattr(code, "co_qualname", code.co_name)  # Python 3.10 has only the bare name
    return f"{name} ({file_text(code.co_filename)}:{line})".replace(";", ",").replace("<locals>.", "")


def file_text(path: str) -> str:
    """Return the path below the entry of `sys.path` that holds it, or `cell 3` for code of a notebook."""
    if (cell := cell_text(path)) is not None:
        return cell
    best = ""
    for entry in sys.path:
        if entry and len(entry) > len(best) and path.startswith(entry + os.sep):
            best = entry
    return path[len(best) + 1 :] if best else path


def cell_text(path: str) -> str | None:
    """Return `cell 3` for the file name of a notebook's cell, None for other files."""
    if not (path.startswith("<ipython-input-") or f"{os.sep}ipykernel_" in path):
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    # IPython counts executions: the number is the one beside the cell, as in `In [3]`.
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(path)
    return None if number is None else f"cell {number}"
