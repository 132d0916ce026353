"""Records FORWARD spans: finds the modules that the loop itself calls, and times only those calls.

Module *instances* get no attributes, because `copy.deepcopy` and `torch.save(model)` would copy them. Instead
the *class* of a root module gets a `__call__` that times the outermost call and passes inner calls through.
Torch's global forward hooks find the root classes. They are expensive, so they stay for a few steps only.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.frameworks.pytorch.stepping.adapter_state import EVAL, NAN, PREDICT, TRAIN
from holter.recorder.frameworks.pytorch.stepping.alternating import Alternating
from holter.recorder.frameworks.pytorch.tensors.names import inner
from holter.recorder.patches import hide, passed_over
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.step_hooks import ThreadState
    from holter.recorder.frameworks.pytorch.stepping.steps import StepClock

DISCOVERY_STEPS = 3
DISCOVERY_CALLS = 50
MAX_ROOTS = 32


class Roots:
    """The root classes found so far, and the discovery of more."""

    def __init__(self, adapter: AdapterState, clock: StepClock) -> None:
        self.adapter, self.clock = adapter, clock
        self.breaker = adapter.breaker("forward")
        self.compiled = False
        self.on_evaluation: list[Callable[[bool], object]] = []
        """Called with True before a model evaluates, and with False before the next model that trains."""
        self.on_untracked: Callable[[Any, bool], object] | None = None
        """Called with a model before a call without gradients, and with whether a batch was just loaded."""
        self.on_output: Callable[[Any, Any], None] | None = None
        """Called with a model that evaluates and its output; raises nothing."""
        self.on_compiler: Callable[[], None] = lambda: None
        self.inference = False
        """Whether the call that begins says itself that it does not train, as calls of Keras models may."""
        self.foreign: tuple[type, ...] = ()
        """Classes whose calls another adapter times."""
        self._classes: dict[type, Callable[[], None]] = {}
        self._examined: set[type] = set()
        self._alternating = Alternating()
        self._handles: list[Any] = []
        self._steps_left = self._calls_left = 0
        self._root = 0
        """Code of the forward span that the discovery hooks opened; 0 without one."""
        self._module = adapter.torch.nn.Module
        adapter.begin_call, adapter.end_call = self._begin_call, self._end_call

    def attach(self) -> None:
        """Add the wrappers that are always roots, and start the first discovery."""
        parallel = getattr(self.adapter.torch.nn, "parallel", None)
        for name in ("DistributedDataParallel", "DataParallel"):
            cls = getattr(parallel, name, None)
            if cls is not None:
                self.add(cls)
        imports.when_imported("torch.distributed.fsdp", self._on_fsdp)
        self.discover()

    def _on_fsdp(self, module: str) -> None:
        try:
            self.add(sys.modules[module].FullyShardedDataParallel)
        except Exception as error:
            self.breaker.fault(error)

    def detach(self) -> None:
        """Remove every hook."""
        self._close()
        self.compiled = True  # prevents a new discovery
        for undo in self._classes.values():
            undo()
        self._classes.clear()

    # -- root classes

    def is_root(self, module: Any) -> bool:
        """Whether a module that the loop calls is a model: it has state, and is not a loss."""
        cls = type(module)
        if cls is self._module or cls.__module__.startswith("torch.nn.modules.loss"):
            return False
        if isinstance(module, self.foreign):
            return False
        if next(module.parameters(), None) is not None:
            return True
        if cls.__name__.endswith(("Loss", "Criterion", "Metric")):
            return False
        return next(module.buffers(), None) is not None

    def add(self, cls: type) -> None:
        """Time the outermost calls of modules of this class."""
        if cls in self._classes or cls is self._module or len(self._classes) >= MAX_ROOTS:
            return
        own = vars(cls).get("__call__")
        ours = self._timed(cls, own)
        try:
            cls.__call__ = ours  # type: ignore[method-assign]
        except (AttributeError, TypeError):
            self._classes[cls] = lambda: None  # a class without settable attributes is not recorded
            return

        def undo() -> None:
            if vars(cls).get("__call__") is not ours:
                return
            if own is None:
                del cls.__call__
            else:
                cls.__call__ = own  # type: ignore[method-assign]

        self._classes[cls] = undo

    def _timed(self, cls: Any, own: Any) -> Callable[..., Any]:
        adapter, states, breaker = self.adapter, self.adapter.states, self.breaker
        step_hooks, quiet = (adapter.call_begins, adapter.call_ends), (self._begin_call, self._end_call)
        gradients, roots = adapter.torch.is_grad_enabled, self

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            begins, ends = step_hooks if adapter.compiles or gradients() else quiet
            begun = False
            try:
                begun = not (adapter.compiles and adapter.is_compiling()) and breaker.on and begins(self)
                # Looked up at each call, as Python does: another library, such as fx, may replace it.
                if own is None:
                    result = super(cls, self).__call__(*args, **kwargs)  # type: ignore[misc]
                else:
                    result = own(self, *args, **kwargs)
                if begun and adapter.evaluates and roots.on_output is not None and not adapter.is_compiling():
                    roots.on_output(self, result)
                return result
            except BaseException as error:
                if begun:
                    states.current.fail(error)
                hide(error)
                raise
            finally:
                if begun:
                    ends(self)

        __call__.__qualname__ = f"{cls.__qualname__}.__call__"
        _skip_frame(self.adapter.torch, passed_over(__call__))
        return __call__

    def _begin_call(self, module: Any) -> bool:
        state = self.adapter.states.current
        if state.forward:
            return False
        state.call_code = 0
        try:
            state.call_code = self._begin(module, state)
        except Exception as error:
            self.breaker.fault(error)
        return True

    def _end_call(self, module: Any) -> None:
        state = self.adapter.states.current
        state.forward = False
        try:
            if state.call_code:
                self._end(module, state, state.call_code)
        except Exception as error:
            self.breaker.fault(error)

    def _code(self, module: Any) -> int:
        model = inner(module)
        code = self.adapter.code(Phase.FORWARD, type(model).__qualname__)
        if model is module:  # a wrapper's class may wrap many models
            self.adapter.model_codes[type(module)] = code
        return code

    def _begin(self, module: Any, state: ThreadState) -> int:
        # A rollout has no batch of its own. It is part of the training, even without gradients.
        gradients = self.adapter.torch.is_grad_enabled()
        tests = not (module.training and (state.seen or (gradients and not self.inference)))
        if not gradients and self.on_untracked is not None and not self.adapter.is_compiling():
            self.on_untracked(module, not state.seen)
        state.forward = state.seen = True
        if self.adapter.predicting is None:
            self.clock.on_forward_begin()
        if self.adapter.evaluates or tests:
            self.adapter.evaluates = tests
            self._turn(tests)
        # A compiler that works beneath the model does not announce itself, and compiles this function, too.
        if self.adapter.on_forward is not None and not self.adapter.is_compiling():
            self.adapter.on_forward(module)
        code = self.adapter.model_codes.get(type(module)) or self._code(module)
        state.begin(code)
        return code

    def _turn(self, evaluates: bool) -> None:
        for call in self.on_evaluation:
            call(evaluates)

    def _end(self, module: Any, state: ThreadState, code: int) -> None:
        state.forward = False
        predicting, trains = self.adapter.predicting, module.training and not self.adapter.evaluates
        mode = PREDICT if predicting else TRAIN if trains else EVAL
        value = self._alternating.value(module) if mode == EVAL else NAN
        state.forward_end = state.end_of(code, value, mode)
        if predicting is not False:
            self.clock.on_forward_end(module, state.forward_end)

    # -- discovery

    def discover(self) -> None:
        """Look for root classes for a few steps, but not once a compiler is in use: it guards on hooks."""
        self._steps_left, self._calls_left = DISCOVERY_STEPS, DISCOVERY_CALLS
        if self._handles or self.compiled:
            return
        self.adapter.boundary_calls.add(self._count_step)
        module = self.adapter.torch.nn.modules.module
        self._handles.append(module.register_module_forward_pre_hook(self._before))
        try:
            self._handles.append(module.register_module_forward_hook(self._after, always_call=True))
        except TypeError:  # torch 2.0: a forward pass that raises would leave a wrong depth
            self._close()

    def stop_discovery(self) -> None:
        """Remove the discovery hooks for good, because a compiler begins to trace."""
        self.compiled, self.adapter.evaluates = True, False
        self._close()
        self._turn(False)
        self.on_compiler()

    def on_eval(self, module: Any) -> None:
        """Examine a module that the script puts in evaluation mode: it may be a new model."""
        self._alternating.note(module)
        cls = type(module)
        if cls in self._examined or len(self._examined) > 2 * MAX_ROOTS:
            return
        self._examined.add(cls)
        # A single frozen layer, such as a batch norm, is part of a model.
        if module._modules and self.is_root(module):
            self.add(cls)
            # A script that samples from a model often calls a part of it, which no step calls by itself.
            for part in module.children():
                if part._modules and not type(part).__module__.startswith("torch."):
                    self.add(type(part))

    def end_unseen_step(self) -> None:
        """End a step of which no hook saw anything, because it was compiled as a whole."""
        adapter = self.adapter
        if self.compiled and adapter.predicting is False and adapter.torch.is_grad_enabled():
            adapter.boundary()

    def on_move(self, module: Any) -> None:
        """Examine a module that goes to a device: with a compiler in use, only this shows an eager model."""
        if self.compiled:
            self.on_eval(module)

    def _count_step(self) -> None:
        if self._handles:
            self._steps_left -= 1
            if self._steps_left <= 0:
                self._close()

    def _close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.adapter.boundary_calls.discard(self._count_step)
        state = self.adapter.states.current
        if state.depth:  # inside a forward pass, of which no hook will see the end
            state.depth = 0
            if self._root and state.forward:
                state.forward = False
                state.end_of(self._root)

    def _before(self, module: Any, args: Any) -> None:
        state = self.adapter.states.current
        if state.depth:
            state.depth += 1
        elif not (state.forward or self.adapter.is_compiling() or self._traces()):
            try:
                self._calls_left -= 1
                if self._calls_left < 0:
                    # Not after a call: torch's loop over hooks after an exception must not lose a hook.
                    self._close()
                    return
                if self.is_root(module):  # else one of its submodules may be a root
                    state.depth = 1
                    self._root = 0
                    self._root = self._begin(module, state)
            except Exception as error:
                self.breaker.fault(error)

    def _traces(self) -> bool:
        """Whether a tracer calls the modules: the outermost one is then part of a model."""
        tracer = sys.modules.get("torch.fx._symbolic_trace")
        return bool(
            getattr(tracer, "_is_fx_tracing_flag", False) or self.adapter.torch._C._get_tracing_state()
        )

    def _after(self, module: Any, args: Any, result: Any) -> None:
        state = self.adapter.states.current
        if not state.depth:
            return
        state.depth -= 1
        if state.depth or not self._root:
            return
        try:
            self._end(module, state, self._root)
            self.add(type(module))
            if self.adapter.evaluates and self.on_output is not None:
                self.on_output(module, result)
        except Exception as error:
            self.breaker.fault(error)


def _skip_frame(torch: Any, function: Any) -> None:
    """Make a compiler skip the frame of `function` and start at the function that it calls."""
    with contextlib.suppress(Exception):
        dynamo = torch._C._dynamo.eval_frame
        if hasattr(dynamo, "set_code_exec_strategy"):
            strategy = dynamo._FrameExecStrategy(dynamo._FrameAction.SKIP, dynamo._FrameAction.DEFAULT)
            dynamo.set_code_exec_strategy(function.__code__, strategy)
        else:
            dynamo.skip_code(function.__code__)
