"""Find plug-ins: every module of a shelf's folder, then what installed packages add by entry point."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType


PROVIDED = {
    "holter.report.page": ("holter.handout", "page"),
    "holter.rules.run": ("holter.job", "run_rules"),
}
"""Names that a room offers and a room above it provides: which module, and what it is called there."""


def provided(name: str) -> Any:
    """Return what a room above provides under `name`; raises `KeyError` when none does."""
    module, own = PROVIDED[name]
    return getattr(import_module(module), own)


def modules(shelf: str) -> dict[str, ModuleType]:
    """Import every plug-in module of package `shelf` (`holter.rules`), by its file's name."""
    package = import_module(shelf)
    return {
        info.name: import_module(f"{shelf}.{info.name}")
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name)
        if not info.name.startswith("_")
    }


def strangers(shelf: str) -> dict[str, Any]:
    """Load what installed packages add to `shelf`; one that does not load raises with its own name."""
    found: dict[str, Any] = {}
    for point in entry_points(group=shelf):
        try:
            found[point.name] = point.load()
        except Exception as error:
            text = f"plug-in {point.name!r} ({point.value}) of {shelf} does not load: {error}"
            raise ImportError(text) from error
    return found
