"""Shows the optimizer step of an engine to the PyTorch adapter as one step of one optimizer.

DeepSpeed's own optimizers step torch's optimizer once for each group of parameters. That optimizer holds
flat copies, of which each rank has a part. Gradients of the model's parameters are freed as soon as they are
reduced.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from holter.recorder.patches import hide

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

_GROUPS = ("bit16_groups", "fp16_groups", "bf16_groups")
"""Where optimizers of DeepSpeed keep the parameters of the model."""


class ModelView:
    """The optimizer of an engine as the PyTorch adapter reads optimizers: with the model's parameters."""

    gradients_freed = True
    """Gradients are unknown: the absence of one means nothing."""

    def __init__(self, engine: Any) -> None:
        self._engine = weakref.ref(engine)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Groups with parameters of the model, and the learning rates of torch's optimizer."""
        engine: Any = self._engine()
        rates = [group.get("lr") for group in engine.basic_optimizer.param_groups]
        groups = next((found for name in _GROUPS if (found := getattr(engine.optimizer, name, None))), None)
        if groups is None or len(groups) != len(rates):
            listed = groups or [[one for one in engine.module.parameters() if one.requires_grad]]
            groups, rates = [[one for group in listed for one in group]], [max(rates)]
        return [{"params": list(group), "lr": rate} for group, rate in zip(groups, rates, strict=True)]

    @property
    def state(self) -> Any:
        """The state of torch's optimizer, by flat copy."""
        engine: Any = self._engine()
        return engine.basic_optimizer.state


class EngineUpdates:
    """Wraps the function in which an engine steps its optimizer, or skips the step."""

    def __init__(self, session: Session, adapter: Any, clock: Any) -> None:
        self._session, self._adapter, self._clock = session, adapter, clock
        self._views: weakref.WeakKeyDictionary[Any, ModelView] = weakref.WeakKeyDictionary()
        self._norm: float | None = None
        """Norm before clipping at this step, where the engine itself clips the gradients of the model."""
        self._mine = False
        """Whether gradient norms are those, in place of the norms that other hooks see."""

    def timed(self, original: Any) -> Callable[..., Any]:
        """Wrap an engine's step of the model in the span of one optimizer."""
        breaker = self._clock.breaker
        stepping = self._clock.stepping(
            original, _optimizer, lambda engine, *_, **__: engine.was_step_applied()
        )

        def take(engine: Any, *args: Any, **kwargs: Any) -> Any:
            shown = None
            try:
                if breaker.on:
                    shown = self._show(engine)
            except Exception as error:
                breaker.fault(error)
            try:
                result = stepping(engine, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                try:
                    if shown is not None:
                        shown()
                except Exception as error:
                    breaker.fault(error)
            try:
                self._note_norm(engine)
            except Exception as error:
                breaker.fault(error)
            return result

        return take

    def _show(self, engine: Any) -> Callable[[], None] | None:
        """Let a step that is due see the model's parameters; return what ends this."""
        adapter, clock = self._adapter, self._clock
        before, after, skipped = adapter.before_step, adapter.after_step, clock.on_skipped
        if before is None or engine.optimizer is engine.basic_optimizer:
            return None
        view = self._view(engine)
        seen: list[Any] = []

        def first(optimizer: Any) -> None:
            if not seen:
                seen.append(optimizer)
                before(view)

        def skips(optimizer: Any) -> None:
            if skipped is not None:
                skipped(view)

        adapter.before_step, adapter.after_step, clock.on_skipped = first, None, skips

        def end() -> None:
            if adapter.before_step is first:
                adapter.before_step, adapter.after_step, clock.on_skipped = before, after, skipped
            if seen and after is not None:
                after(view)

        return end

    def _view(self, engine: Any) -> ModelView:
        view = self._views.get(engine)
        if view is None:
            name = type(engine.basic_optimizer).__qualname__
            view = self._views[engine] = type(name, (ModelView,), {})(engine)
        return view

    def clipped(self, norm: Any, *_: object, **__: object) -> None:
        """Hear of the norm that a function of DeepSpeed has returned: later hooks see clipped gradients."""
        self._norm = _on_host(norm)

    def _note_norm(self, engine: Any) -> None:
        """Record the norm of all gradients before clipping, which the engine has computed for all ranks."""
        norm, self._norm = self._norm, None
        logged = self._session.logged_names
        if norm is not None and "grad_norm" not in logged:
            logged.add("grad_norm")
            self._mine = True
        if norm is None:
            norm = _on_host(getattr(engine, "_global_grad_norm", None))
        if norm is not None and engine.was_step_applied() and (self._mine or "grad_norm" not in logged):
            self._session.scalar("grad_norm", norm)

    def undo(self) -> None:
        """Leave gradient norms to the other hooks again."""
        if self._mine:
            self._session.logged_names.discard("grad_norm")


def _on_host(number: Any) -> float | None:
    """Return a number that is on the host; None for one that would have to be waited for."""
    if isinstance(number, (int, float)) or getattr(number, "is_cpu", False):
        return float(number)
    return None


def _optimizer(engine: Any, *_: object, **__: object) -> Any:
    return engine.basic_optimizer or engine.optimizer
