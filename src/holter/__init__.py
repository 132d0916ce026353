"""Record a training run while it runs, and say why it is slow or sick.

Importing this package loads the standard library only and does nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # importing typing at run time would take most of the time of `import holter`

__version__ = "0.1.0"

_HOME = {
    "annotate": "holter.recorder.annotate",
    "annotation_begin": "holter.recorder.annotate",
    "annotation_end": "holter.recorder.annotate",
    "log": "holter.recorder.annotate",
    "phase": "holter.recorder.annotate",
    "step": "holter.recorder.annotate",
    "steps": "holter.recorder.annotate",
    "start": "holter.recorder.start",
    "stop": "holter.recorder.start",
    "save_tensor": "holter.recorder.watching",
    "watch": "holter.recorder.watching",
    "open": "holter.job",
    "Job": "holter.job",
    "ui": "holter.job.inline",
    "load_ipython_extension": "holter.notebook",
    "unload_ipython_extension": "holter.notebook",
}
"""Public names and their modules, which are imported on first use."""

__all__ = [*sorted(_HOME), "__version__", "rules"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "rules":
        return import_module("holter.rules")
    if name not in _HOME:
        raise AttributeError(f"module 'holter' has no attribute {name!r}; it has: {', '.join(__all__)}")
    home = _HOME[name]
    if home == "holter.recorder.annotate":
        from holter.recorder import unrecorded

        if unrecorded.applies():
            home = "holter.recorder.unrecorded"
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
