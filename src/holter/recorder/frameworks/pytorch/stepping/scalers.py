"""Gradient scalers of mixed precision: whose step is the span, and which steps they skip."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.patches import hide
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.recorder.frameworks.pytorch.stepping.steps import StepClock

SKIPPED = int(Phase.SKIPPED)


def owners(torch: Any, method: str) -> Iterator[Any]:
    """Yield the scalers' classes that have a method of their own.

    Both names: before torch 2.3 the CUDA scaler held the code, since then it inherits it.
    """
    for path in (("amp", "GradScaler"), ("cuda", "amp", "GradScaler")):
        owner: Any = torch
        for part in path:
            owner = getattr(owner, part, None)
        if owner is not None and method in vars(owner):
            yield owner


def watch_step(clock: StepClock, original: Any) -> Callable[..., Any]:
    """Return a scaler's `step` within the span of the optimizer that it steps, or skips."""
    flow, here = clock.flow, clock.flow.here

    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if flow.is_compiling() or (at := here.at).scaling or not clock.collector.on:
            try:
                return original(self, optimizer, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
        at.scaling = True
        inner = flow.inner_steps
        begun = done = False
        try:
            if clock.on_scaler is not None:
                clock.on_scaler(self)
            clock.enter(optimizer, at)
            begun = True
        except Exception as error:
            clock.collector.fault(error)
        try:
            result = original(self, optimizer, *args, **kwargs)
            done = True
            return result
        except BaseException as error:
            hide(error)
            raise
        finally:
            at.scaling = False
            try:
                if begun:
                    if done and flow.inner_steps == inner:
                        at.add(SKIPPED, clock.codes[type(optimizer)] >> 8, perf_counter_ns(), 0)
                        if clock.on_skipped is not None:
                            clock.on_skipped(optimizer)
                    clock.leave(optimizer, at, stepped=done)
            except Exception as error:
                clock.collector.fault(error)

    return step
