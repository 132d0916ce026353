"""Names what Flax and equinox compute in Python around compiled functions: they take models apart."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.frameworks.jax import transforms
from holter.recorder.frameworks.spans import timed
from holter.schema.phases import FILTER_JIT, NNX_JIT, Phase

if TYPE_CHECKING:
    from holter.recorder.frameworks.jax.calls import CompiledCalls

_NNX = "flax.nnx.transforms.compilation"
_NNX_CLASSES = ("JitWrapped", "SimpleJitWrapped", "SimpleJitPartialWrapped")
"""The classes of functions that `nnx.jit` returns."""
_EQUINOX = "equinox._jit"


def watch_around(calls: CompiledCalls) -> None:
    """Time calls of these functions; the call of the compiled function inside has a span of its own."""
    session, breaker = calls.session, calls.session.breaker("jax.around")

    def nnx_jit(function: Any, *_: Any, **__: Any) -> str:
        # Within the trace of another function it is part of that trace.
        return "" if transforms._local.stack else f"{NNX_JIT}{getattr(function, '__name__', '')}"

    def filter_jit(function: Any, lowers: bool, *_: Any, **__: Any) -> str:
        skipped = lowers or transforms._local.stack
        return "" if skipped else f"{FILTER_JIT}{getattr(function, '__name__', '')}"

    def wrap(owner: Any, method: str, name: Any) -> None:
        calls.patches.wrap(
            owner, method, lambda original: timed(session, breaker, original, Phase.ANNOTATION, name)
        )

    def hook(module: str) -> None:
        try:
            loaded = sys.modules[module]
            if module == _EQUINOX:
                wrap(loaded, "_call", filter_jit)  # what `filter_jit` returns calls it
            else:
                for one in _NNX_CLASSES:
                    wrap(getattr(loaded, one, None), "__call__", nnx_jit)
        except Exception as error:
            breaker.fault(error)

    imports.when_imported(_NNX, hook)
    imports.when_imported(_EQUINOX, hook)
