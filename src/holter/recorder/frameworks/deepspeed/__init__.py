"""Records DeepSpeed: one optimizer step of an engine is one step, whatever its optimizer consists of.

The PyTorch adapter records forward and backward passes, batches, evaluations and most of the communication.
`training` adds what its hooks cannot see: where a step ends, and the work of the engine around the passes.
`updates` shows the PyTorch adapter the parameters of the model where DeepSpeed's optimizer holds copies.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holter.recorder.frameworks.deepspeed.training import Training

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session


def attach(session: Session) -> Callable[[], None]:
    """Record the engines of this process; return a function that removes every hook."""
    training = Training(session)
    engine = getattr(sys.modules["deepspeed"], "DeepSpeedEngine", None)
    if engine is None or session.torch_parts is None:
        return training.patches.undo
    for name, part in training.parts(engine).items():
        try:
            part()
        except Exception as error:  # this DeepSpeed lacks what is hooked; the other parts are recorded
            session.fault(f"deepspeed.{name}", error)
    return training.patches.undo
