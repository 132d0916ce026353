"""The pages of a job: one file a page. The folder is the registry, and the job's navigation.

A page is a module with `TITLE`, `SHOWN`, its place among the others, and
`draw(reading: Reading, asked: Mapping[str, str]) -> str`, its HTML: text, tables and pictures to be read
with scripts off, in which islands (`holter.pages.islands`) become live. It is at
`/jobs/{job}/{name of the file}`, with `-` for `_`; `overview` is at `/jobs/{job}`. `reading` is what the
address asks for: the window `from` to `to`. An element with `data-ranged` in it has the page drawn anew
whenever another window is chosen.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from holter.plugins import modules

if TYPE_CHECKING:
    from types import ModuleType

FIRST = "overview"


@cache
def pages() -> dict[str, ModuleType]:
    """Return all pages by name, in the order of the navigation."""
    found: dict[str, Any] = modules(__name__)
    return dict(sorted(found.items(), key=lambda entry: (entry[1].SHOWN, entry[0])))
