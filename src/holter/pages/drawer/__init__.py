"""What opens beside every page of a job, at the right: findings, configuration, controls.

A module is what a page of `holter.pages.job` is: `TITLE`, `SHOWN` and `draw`. Its address is
`/jobs/{job}/{module}`, a page of its own for readers without JavaScript; scripts open it in a dialog over the
page that is shown, and `#{module}` at the end of an address opens it at once.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from holter.plugins import modules

if TYPE_CHECKING:
    from types import ModuleType


@cache
def drawers() -> dict[str, ModuleType]:
    """Return all of them by name, in the order of their links."""
    return dict(sorted(modules(__name__).items(), key=lambda entry: (entry[1].SHOWN, entry[0])))
