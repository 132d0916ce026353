"""Records the planned steps of a Lightning Trainer; the PyTorch adapter records its loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks import _plans

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

_BEGINS = [
    (f"{package}.loops.fit_loop", "_FitLoop", "on_run_start")
    for package in ("lightning.pytorch", "pytorch_lightning")
]


def attach(session: Session) -> Callable[[], None]:
    """Watch the begin of a training. The trainer has its data by then and knows its steps per epoch."""
    return _plans.watch(session, _BEGINS, _read_plan)


def _read_plan(loop: Any) -> tuple[str, float, float]:
    trainer = loop.trainer
    return "lightning.Trainer", trainer.estimated_stepping_batches, trainer.global_step
