"""Times the steps of gradient scalers, and records the steps that they skip."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from holter.recorder.frameworks.pytorch.patches import hide
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.step_hooks import ThreadState
    from holter.recorder.guard import CircuitBreaker

SKIPPED = int(Phase.SKIPPED)


class _Clock(Protocol):
    """The step clock; see `StepClock`."""

    adapter: AdapterState
    breaker: CircuitBreaker
    codes: dict[type, int]
    on_scaler: Callable[[Any], None] | None
    on_skipped: Callable[[Any], None] | None

    def enter(self, optimizer: Any, state: ThreadState) -> None: ...
    def leave(self, optimizer: Any, state: ThreadState, *, stepped: bool) -> None: ...


def owners(torch: Any, method: str) -> Iterator[Any]:
    """Yield the classes of gradient scalers that define `method`.

    Before torch 2.3 the CUDA scaler defined it; since then it inherits it.
    """
    for path in (("amp", "GradScaler"), ("cuda", "amp", "GradScaler")):
        owner: Any = torch
        for part in path:
            owner = getattr(owner, part, None)
        if owner is not None and method in vars(owner):
            yield owner


def watch_step(clock: _Clock, original: Any) -> Callable[..., Any]:
    """Wrap a scaler's `step` in the span of the optimizer that it steps or skips."""
    adapter, states = clock.adapter, clock.adapter.states

    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if adapter.is_compiling() or (state := states.current).scaling or not clock.breaker.on:
            try:
                return original(self, optimizer, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
        state.scaling = True
        inner = adapter.inner_steps
        begun = done = False
        try:
            if clock.on_scaler is not None:
                clock.on_scaler(self)
            clock.enter(optimizer, state)
            begun = True
        except Exception as error:
            clock.breaker.fault(error)
        try:
            result = original(self, optimizer, *args, **kwargs)
            done = True
            return result
        except BaseException as error:
            hide(error)
            raise
        finally:
            state.scaling = False
            try:
                if begun:
                    if done and adapter.inner_steps == inner:
                        state.add(SKIPPED, clock.codes[type(optimizer)] >> 8, perf_counter_ns(), 0)
                        if clock.on_skipped is not None:
                            clock.on_skipped(optimizer)
                    clock.leave(optimizer, state, stepped=done)
            except Exception as error:
                clock.breaker.fault(error)

    return step
