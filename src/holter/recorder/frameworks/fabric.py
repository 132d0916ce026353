"""Records callbacks, loggers and logged numbers of Lightning Fabric; its loop is one of PyTorch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.frameworks._trainer import TRAIN, Trainer

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

_PACKAGES = ("lightning.fabric", "lightning_fabric")


def attach(session: Session) -> Callable[[], None]:
    """Record Fabric of both packages, each once its module is loaded. The script owns the loop."""
    fabric = Trainer(session, "lightning.Fabric")

    def numbers(logger: Any, metrics: Any = None, *_: object, **__: object) -> None:
        if isinstance(metrics, dict):
            saver = session.explicit
            fabric.report(metrics, TRAIN if saver is None else saver.mode())

    def made(result: None, one: Any, *_: object, **__: object) -> None:
        for callback in one._callbacks:
            hooks = [name for name in dir(type(callback)) if not name.startswith("_")]
            fabric.calls.watch(callback, "callback", hooks)
        for logger in one._loggers:
            fabric.calls.watch(logger, "logger", ("log_metrics",), heard=numbers)
            fabric.calls.watch(logger, "logger file of", ("save",))

    def hook(module: str) -> None:
        try:
            fabric.patches.after(sys.modules[module].Fabric, "__init__", made, fabric.breaker)
        except Exception as error:
            fabric.breaker.fault(error)

    for package in _PACKAGES:
        imports.when_imported(package, hook)
    return fabric.patches.undo
