"""Records the planned steps of a Hugging Face Trainer; the PyTorch adapter records its loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks import _plans

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session


def attach(session: Session) -> Callable[[], None]:
    """Watch the begin of a training. The trainer knows its `max_steps` by then."""
    return _plans.watch(
        session, [("transformers.trainer_callback", "CallbackHandler", "on_train_begin")], _read_plan
    )


def _read_plan(handler: Any, args: Any, state: Any, *more: Any, **named: Any) -> tuple[str, float, float]:
    return "transformers.Trainer", state.max_steps, state.global_step
