"""Reads the rank of this process from JAX, without starting a backend."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.recorder.frameworks.jax.calls import CompiledCalls


def watch_ranks(calls: CompiledCalls) -> None:
    """Journal the rank now, if `jax.distributed` is initialized, or when it is."""
    state = sys.modules["jax._src.distributed"].global_state

    def tell(*_: object, **__: object) -> None:
        if state.client is not None and state.num_processes and state.num_processes > 1:
            rank = {"rank": state.process_id, "local_rank": None, "world_size": state.num_processes}
            calls.session.journal("rank", rank)

    tell()
    calls.patches.after(calls.jax.distributed, "initialize", tell, calls.breaker)
