"""Names what Flax computes in Python around a function of `nnx.jit`, for which it takes models apart."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.frameworks.jax import transforms
from holter.recorder.frameworks.spans import timed
from holter.schema.phases import NNX_JIT, Phase

if TYPE_CHECKING:
    from holter.recorder.frameworks.jax.calls import CompiledCalls

_MODULE = "flax.nnx.transforms.compilation"
_CLASSES = ("JitWrapped", "SimpleJitWrapped", "SimpleJitPartialWrapped")
"""The classes of functions that `nnx.jit` returns."""


def watch_nnx(calls: CompiledCalls) -> None:
    """Time calls of these functions; the call of the compiled function inside has a span of its own."""
    session, breaker = calls.session, calls.session.breaker("jax.nnx")

    def name(function: Any, *_: Any, **__: Any) -> str:
        # Within the trace of another function it is part of that trace.
        return "" if transforms._local.stack else f"{NNX_JIT}{getattr(function, '__name__', '')}"

    def hook(module: str) -> None:
        try:
            for owner in _CLASSES:
                calls.patches.wrap(
                    getattr(sys.modules[module], owner, None),
                    "__call__",
                    lambda original: timed(session, breaker, original, Phase.ANNOTATION, name),
                )
        except Exception as error:
            breaker.fault(error)

    imports.when_imported(_MODULE, hook)
