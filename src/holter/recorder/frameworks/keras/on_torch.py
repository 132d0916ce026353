"""Shows the PyTorch adapter the models and optimizers of Keras, which are not those of torch."""

from __future__ import annotations

import os
import sys
import weakref
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.patches import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.recorder.frameworks.keras.fitting import Fitting
    from holter.recorder.session import Session


def attach_to_torch(session: Session, fitting: Fitting) -> None:
    """Time calls of models and updates by optimizers as the PyTorch adapter times its own."""
    imports.use("torch")
    if session.torch_parts is None:
        return
    adapter, clock, roots, _ = session.torch_parts
    device = getattr(sys.modules.get("keras.src.backend.torch.core"), "DEFAULT_DEVICE", None)
    if device == "cpu" and "KERAS_TORCH_DEVICE" not in os.environ:
        # Keras has found no accelerator. It calls `Tensor.to` about ten times for each layer.
        adapter.without_devices()
    layer = sys.modules["keras.src.layers.layer"].Layer
    model = sys.modules["keras.src.models.model"].Model
    optimizer = sys.modules["keras.src.optimizers.base_optimizer"].BaseOptimizer
    scope = sys.modules["keras.src.backend.common.symbolic_scope"].SymbolicScope
    symbolic = sys.modules["keras.src.backend.common.keras_tensor"].any_symbolic_tensors
    # Keras calls each layer of a new model with placeholders: only a call of a model with data is a pass.
    roots.foreign += (layer,)
    fitting.patches.later(lambda: setattr(roots, "foreign", ()))
    fitting.patches.wrap(model, "__call__", lambda original: _calling(original, adapter, roots, symbolic))
    fitting.patches.wrap(scope, "__enter__", lambda original: _entering(original, adapter))
    fitting.patches.wrap(scope, "__exit__", lambda original: _leaving(original, adapter))
    updates = KerasUpdates(adapter, clock)
    fitting.patches.after(optimizer, "__init__", updates.expect, clock.breaker)
    fitting.patches.wrap(optimizer, "apply", updates.timed)


def _calling(original: Any, adapter: Any, roots: Any, symbolic: Callable[..., bool]) -> Callable[..., Any]:
    """Wrap the call of a model in the span of a forward pass."""
    breaker, states = roots.breaker, adapter.states

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        begun = False
        try:
            if breaker.on and not (adapter.compiles and adapter.is_compiling()):
                roots.inference = kwargs.get("training") is False
                begun = not (states.current.forward or symbolic(args, kwargs)) and adapter.begin_call(self)
        except Exception as error:
            breaker.fault(error)
        finally:
            roots.inference = False
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            if begun:
                states.current.fail(error)
            hide(error)
            raise
        finally:
            if begun:
                adapter.end_call(self)

    return __call__


def _entering(original: Any, adapter: Any) -> Callable[..., Any]:
    """Let models that Keras calls for their shapes begin no forward pass."""

    def __enter__(self: Any) -> Any:  # noqa: N807
        state = adapter.states.current
        self._holter_before, state.forward = state.forward, True
        return original(self)

    return __enter__


def _leaving(original: Any, adapter: Any) -> Callable[..., Any]:
    def __exit__(self: Any, *error: Any) -> Any:  # noqa: N807
        adapter.states.current.forward = vars(self).pop("_holter_before", False)
        return original(self, *error)

    return __exit__


class OptimizerView:
    """A Keras optimizer as the PyTorch adapter reads optimizers: with its parameters and its rate."""

    def __init__(self, optimizer: Any) -> None:
        self.state: dict[Any, Any] = {}
        self._optimizer = weakref.ref(optimizer)
        self.variables: Sequence[Any] = ()
        self.param_groups = [_Group(self)]

    @property
    def rate(self) -> float | None:
        """The learning rate, if it is a number on the host; a schedule would have to compute it."""
        rate = getattr(self._optimizer(), "_learning_rate", None)
        rate = getattr(rate, "_value", rate)
        if getattr(rate, "is_cpu", False):
            return float(rate)  # type: ignore[arg-type]
        return rate if isinstance(rate, float) else None


class _Group:
    """The only group of parameters of an optimizer."""

    def __init__(self, view: OptimizerView) -> None:
        self._view = view

    def get(self, key: str, default: Any = None) -> Any:
        """Return the learning rate `lr`, or the parameters `params`."""
        return self[key] if key in ("lr", "params") else default

    def __getitem__(self, key: str) -> Any:
        if key == "lr":
            return self._view.rate
        if key == "params":
            return [variable.value for variable in self._view.variables]
        raise KeyError(key)


class KerasUpdates:
    """Shows the updates of Keras optimizers to the step clock as steps of torch optimizers."""

    def __init__(self, adapter: Any, clock: Any) -> None:
        self._adapter, self._clock = adapter, clock
        self._views: weakref.WeakKeyDictionary[Any, OptimizerView] = weakref.WeakKeyDictionary()
        self._classes: dict[type, type[OptimizerView]] = {}

    def expect(self, result: None, optimizer: Any, *_: object, **__: object) -> None:
        """Wait for the first update of a new optimizer."""
        self._clock.expect(None, self._view(optimizer))

    def timed(self, original: Any) -> Callable[..., Any]:
        """Wrap an update in the span of an optimizer step, which may also end a step."""
        adapter, breaker = self._adapter, self._clock.breaker

        def apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
            view, done = None, False
            try:
                if breaker.on and not (adapter.compiles and adapter.is_compiling()):
                    view = self._begin(optimizer, trainable_variables)
            except Exception as error:
                breaker.fault(error)
            try:
                result = original(optimizer, grads, trainable_variables)
                done = True
                return result
            except BaseException as error:
                hide(error)
                raise
            finally:
                if view is not None:
                    try:
                        self._end(view, stepped=done)
                    except Exception as error:
                        breaker.fault(error)

        return apply

    def _begin(self, optimizer: Any, variables: Any) -> OptimizerView | None:
        adapter, state = self._adapter, self._adapter.states.current
        if state.optimizers:
            return None  # an optimizer inside another
        view = self._view(optimizer)
        view.variables = variables if isinstance(variables, (list, tuple)) else optimizer._trainable_variables
        if adapter.before_step is not None:
            adapter.before_step(view)
        self._clock.enter(view, state)
        return view

    def _end(self, view: OptimizerView, *, stepped: bool) -> None:
        adapter = self._adapter
        adapter.inner_steps += 1
        if stepped and adapter.after_step is not None:
            adapter.after_step(view)
        self._clock.leave(view, adapter.states.current, stepped=stepped)

    def _view(self, optimizer: Any) -> OptimizerView:
        view = self._views.get(optimizer)
        if view is None:
            kind = type(optimizer)
            if kind not in self._classes:  # spans have the name of the class
                self._classes[kind] = type(kind.__qualname__, (OptimizerView,), {})
            view = self._views[optimizer] = self._classes[kind](optimizer)
        return view
