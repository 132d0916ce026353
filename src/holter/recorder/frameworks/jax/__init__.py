"""Records JAX with Flax and optax: a step is a call of the compiled function whose trace took a gradient.

`transforms` replaces `jax.jit` and its like when JAX is loaded; everything else is loaded when the script
takes its first gradient. `calls` counts the steps, `waits` times waiting for the device, `compilations` says
what was compiled and why, `device` measures the device and reads losses without making the training wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session


def attach(session: Session) -> Callable[[], None]:
    """Record JAX for `session`; return a function that removes every hook."""
    from holter.recorder.frameworks.jax.around import watch_around
    from holter.recorder.frameworks.jax.calls import CompiledCalls
    from holter.recorder.frameworks.jax.checkpoints import watch_checkpoints
    from holter.recorder.frameworks.jax.ranks import watch_ranks
    from holter.recorder.frameworks.jax.waits import watch_waits

    calls = CompiledCalls(session)
    parts = {
        "waits": watch_waits,
        "checkpoint": watch_checkpoints,
        "rank": watch_ranks,
        "around": watch_around,
    }
    for name, part in parts.items():
        try:
            part(calls)
        except Exception as error:  # this JAX lacks what is hooked; the other parts are recorded
            session.fault(f"jax.{name}", error)
    return calls.attach()
