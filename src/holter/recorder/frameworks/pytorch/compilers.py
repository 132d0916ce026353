"""Records COMPILE spans, and removes global hooks before `torch.compile` guards on them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.roots import Roots
    from holter.recorder.patches import Patches


def known_to_script(torch: Any, ours: Callable[..., Any], original: Any) -> None:
    """Let TorchScript compile a wrapper as the function that it wraps; the wrapper must stay alive.

    TorchScript lists its functions at the first lookup, so look up before any is replaced.
    """
    scripted = torch.jit._builtins
    operation = scripted._find_builtin(original)
    if operation is not None:
        scripted._register_builtin(ours, operation)


class Compilers:
    """Times torch's compiler. Removes hooks that disturb it before it compiles the first frame."""

    def __init__(self, adapter: AdapterState, roots: Roots) -> None:
        self.adapter = adapter
        self.roots = roots
        self.breaker = adapter.breaker("compile")
        self._code = adapter.code(Phase.COMPILE, "torch.compile")
        self._patches: Patches | None = None

    def attach(self, patches: Patches) -> None:
        """Wrap `torch.compile` and `Module.compile`."""
        self._patches = patches
        torch = self.adapter.torch
        patches.before(torch, "compile", self._before_compile, self.breaker)
        patches.after(torch, "compile", self._register, self.breaker)
        patches.after(torch.nn.Module, "compile", lambda _, it, *a, **k: self.roots.on_eval(it), self.breaker)
        # Other entry points to the compiler import this module before they trace the first frame.
        imports.when_imported("torch._dynamo.callback", self._on_compiler)
        imports.when_imported("torch.export._trace", lambda _: setattr(self.adapter, "compiles", True))
        patches.later(self._unregister)

    def _prepare(self) -> None:
        self.adapter.compiles = True
        self.roots.stop_discovery()

    def _on_compiler(self, module: str) -> None:
        try:
            if self._patches is not None:
                self._register()
        except Exception as error:
            self.breaker.fault(error)

    def _before_compile(self, *args: Any, **kwargs: Any) -> None:
        what = args[0] if args else kwargs.get("model")
        # Only a module's hooks run inside the compiled code. A compiled function may never be called:
        # libraries decorate functions at import.
        if isinstance(getattr(what, "__self__", what), self.adapter.torch.nn.Module):
            self._prepare()

    def _register(self, *_: Any, **__: Any) -> None:
        """Register callbacks for the start and end of compilations, unless they are registered."""
        frames = sys.modules.get("torch._dynamo.eval_frame")
        if frames is not None:
            self.roots.add(frames.OptimizedModule)
        callbacks = sys.modules.get("torch._dynamo.callback")
        handler = getattr(callbacks, "callback_handler", None)
        if handler is None:  # an older torch, without such callbacks
            self._prepare()
        elif self._start not in handler.start_callbacks:
            handler.register_start_callback(self._start)
            handler.register_end_callback(self._end)

    def _unregister(self) -> None:
        self._patches = None
        handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        if handler is not None and self._start in handler.start_callbacks:
            handler.remove_start_callback(self._start)
            handler.remove_end_callback(self._end)

    def _start(self, *_: Any) -> None:
        try:
            if not self.roots.compiled:
                self._prepare()
            self.adapter.states.current.begin(self._code)
        except Exception as error:
            self.breaker.fault(error)

    def _end(self, *_: Any) -> None:
        try:
            self.adapter.states.current.end_of(self._code)
        except Exception as error:
            self.breaker.fault(error)


def is_observed(inner: Any) -> bool:
    """Whether operations are traced, dispatched to a mode, or transformed, as by `torch.func`."""
    if inner._get_tracing_state() is not None or getattr(inner, "_len_torch_dispatch_stack", int)():
        return True
    transforms = getattr(getattr(inner, "_functorch", None), "peek_interpreter_stack", None)
    return transforms is not None and transforms() is not None
