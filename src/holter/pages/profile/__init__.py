"""The views of the page Profile: one module per view. The folder is the registry.

A view is a module with `TITLE`, `SHOWN`, which orders the views, `present(reading)`, whether the job has data
for it, and `draw(reading, asked, rendering)`, which yields its parts. `view=MODULE` of an address chooses it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from holter.plugins import modules

if TYPE_CHECKING:
    from types import ModuleType


@cache
def views() -> dict[str, ModuleType]:
    """Return all views by name, in their order."""
    return dict(sorted(modules(__name__).items(), key=lambda entry: (entry[1].SHOWN, entry[0])))
