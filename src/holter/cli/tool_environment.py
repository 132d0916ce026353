"""Takes the environment of `uvx` off PATH, so that `python` is the training's Python and not holter's."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping


def leave(variables: MutableMapping[str, str]) -> None:
    """Remove the folder of holter's own programs from PATH if `uvx` put it there.

    `uv run` uses the project's environment, which `VIRTUAL_ENV` names. There, `python` is the right one.
    """
    first, _, rest = variables.get("PATH", "").partition(os.pathsep)
    ours = os.path.join(sys.prefix, "bin")
    if "UV" in variables and first == ours and rest and variables.get("VIRTUAL_ENV") != sys.prefix:
        variables["PATH"] = rest
