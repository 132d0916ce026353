"""How pages are rendered: by a server or into a file, for the first time or again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rendering:
    """What a page has to know about the browser that shows it."""

    standalone: bool = False
    """The pages are one file without a server: they have no forms, and links lead to its own sections."""
    refreshed: bool = False
    """The browser shows the page already and asks for its new state: its islands draw themselves."""
    later: str = ""
    """Address of the page with all charts drawn; without scripts, the charts of a long job are there only."""
