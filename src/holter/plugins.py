"""Find plug-ins: the modules of a plug-in folder, and those of other packages by entry point."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType


def modules(package: str, *folders: str) -> dict[str, ModuleType]:
    """Import every plug-in module of `package` (`holter.rules`); returns them by name.

    Args:
        package: The package.
        folders: Its sub-packages that hold the plug-ins; without any, the package itself does.
    """
    found: dict[str, ModuleType] = {}
    for parent in [f"{package}.{folder}" for folder in folders] or [package]:
        for info in pkgutil.iter_modules(import_module(parent).__path__):
            if not info.ispkg and not info.name.startswith("_"):
                found[info.name] = import_module(f"{parent}.{info.name}")
    return dict(sorted(found.items()))


def external(package: str) -> dict[str, Any]:
    """Load the plug-ins of other packages for `package`; raises `ImportError` that names a broken one."""
    found: dict[str, Any] = {}
    for point in entry_points(group=package):
        try:
            found[point.name] = point.load()
        except Exception as error:
            text = f"plug-in {point.name!r} ({point.value}) of {package} does not load: {error}"
            raise ImportError(text) from error
    return found
