"""Find plug-ins: every module of a shelf's folders, then what installed packages add by entry point."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType


def modules(shelf: str, *folders: str) -> dict[str, ModuleType]:
    """Import every plug-in module of package `shelf` (`holter.rules`), by its file's name.

    Args:
        shelf: The package.
        folders: Its sub-packages that hold the plug-ins; the package itself without any.
    """
    found: dict[str, ModuleType] = {}
    for package in [f"{shelf}.{folder}" for folder in folders] or [shelf]:
        for info in pkgutil.iter_modules(import_module(package).__path__):
            if not info.ispkg and not info.name.startswith("_"):
                found[info.name] = import_module(f"{package}.{info.name}")
    return dict(sorted(found.items()))


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
