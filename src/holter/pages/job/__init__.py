"""The pages of a job: one module per page. The folder is the registry, and the tabs of the dashboard.

A page is a module with

- `TITLE`, and `SHOWN`, which orders the tabs;
- `missing(reading: Reading) -> str | None`: without data for this page, a sentence that says how to get it;
- `draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup`: text, tables and
  pictures that readers without JavaScript can use, with islands (`holter.pages.islands`) that scripts bring
  to life.

Its address is `/jobs/{job}/{module}`, with `-` for `_`; `overview` is at `/jobs/{job}`. `reading` covers the
time window `from` to `to` of the address. A page with an element that has `data-ranged` is loaded again when
another window is chosen. Findings, configuration and controls are in `holter.pages.drawer`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from holter.plugins import modules

if TYPE_CHECKING:
    from types import ModuleType

FIRST = "overview"
MOVED = {
    "nodes": ("system", {}),
    "profiler": ("profile", {}),
    "python": ("profile", {"view": "flame"}),
    "data_loading": ("performance", {}),
    "tensors": ("training", {}),
    "insights": ("findings", {}),
    "settings": ("controls", {}),
}
"""Pages that had another name, and the page and parameters that replace them: old links keep working."""


@cache
def pages() -> dict[str, ModuleType]:
    """Return all pages by name, in the order of the tabs."""
    return dict(sorted(modules(__name__).items(), key=lambda entry: (entry[1].SHOWN, entry[0])))
