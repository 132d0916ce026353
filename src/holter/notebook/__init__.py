"""Notebooks: `%load_ext holter` records the following cells, `%%holter` records one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from holter.notebook.magics import HolterMagics

_loaded: HolterMagics | None = None


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Record the cells after `%load_ext holter`, until the kernel ends or `%holter stop`."""
    global _loaded
    from holter.notebook.magics import HolterMagics

    if _loaded is None:
        _loaded = HolterMagics(shell)
        shell.register_magics(_loaded)
    _loaded.begin()


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """End the recording after `%unload_ext holter`."""
    if _loaded is not None:
        _loaded.end()
