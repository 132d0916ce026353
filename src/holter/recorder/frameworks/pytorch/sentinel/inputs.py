"""Looks at what enters the first layer of a model: range, NaN, and whether all elements are equal.

The model itself may scale its inputs, so the input of the first module with parameters is read. When a model
is met, a hook of all modules finds it, and stays until that module is called. Later only that module is
hooked: with a hook of all modules, torch's own frames in tracebacks of the script would differ.
"""

from __future__ import annotations

import weakref
from functools import partial
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.compilers import is_observed
from holter.recorder.frameworks.pytorch.sentinel import values
from holter.recorder.frameworks.pytorch.tensors.names import class_name, inner

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

_MODELS = 4
"""Models of one step that are looked at."""


class InputWatch:
    """Reads the inputs of models in one step that is due."""

    def __init__(self, adapter: AdapterState, reading: Callable[[Callable[[int], None]], None]) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("sentinel_inputs")
        self.spent = 0
        """Nanoseconds that looks have taken; the sentinel sets it back."""
        self._reading = reading
        self._handle: Any = None
        self._thread = 0
        self._model = ""
        self._met: set[int] = set()
        self._layers: weakref.WeakKeyDictionary[Any, Callable[[], Any]] = weakref.WeakKeyDictionary()
        """The first module with parameters of each model that was met."""
        self._root: Any = None
        """A model whose first layer is not known yet."""
        self._pass_on: Callable[[Any, Callable[[Any], None]], None] | None = None
        self._found: list[dict[str, Any]] = []

    def begin(self, pass_on: Callable[[Any, Callable[[Any], None]], None]) -> list[dict[str, Any]]:
        """Prepare for a step; return the list that receives what is found.

        `pass_on` calls a function with a tensor once it is on the host.
        """
        self.end()
        self._pass_on, self._found = pass_on, []
        return self._found

    def end(self) -> None:
        """Stop looking."""
        self.remove()
        self._pass_on = None
        self._met.clear()

    def on_forward(self, model: Any) -> None:
        """Watch the modules of a model that the loop is about to call."""
        if self._pass_on is None or id(model) in self._met or len(self._met) >= _MODELS:
            return
        if not self.breaker.on or not self.adapter.torch.is_grad_enabled():
            return
        try:
            self._watch(model)
        except Exception as error:
            self.breaker.fault(error)

    def _watch(self, model: Any) -> None:
        self._met.add(id(model))
        self._model, self._thread = class_name(inner(model)), get_ident()
        self.remove()  # of a model before, whose modules were never called
        known = self._layers.get(model)
        layer = known() if known is not None else None
        if layer is not None:
            self._handle = layer.register_forward_pre_hook(self._before)
            return
        self._root = weakref.ref(model)
        register = self.adapter.torch.nn.modules.module.register_module_forward_pre_hook
        self._handle = register(self._before)

    def remove(self) -> None:
        """Remove the hook. A copy of the model, or a file with it, would contain the hook of a module."""
        handle, self._handle, self._root = self._handle, None, None
        if handle is not None:
            handle.remove()

    def _before(self, module: Any, args: Any) -> None:
        try:
            leaf = not module._modules and any(one is not None for one in module._parameters.values())
            if not leaf or self._thread != get_ident() or self._handle is None:
                return
            began = perf_counter_ns()
            root = self._root and self._root()
            self.remove()
            if root is not None and not isinstance(module, self.adapter.torch.jit.ScriptModule):
                self._layers[root] = weakref.ref(module)  # scripted modules take no hook of their own
            if not is_observed(self.adapter.torch._C):
                self._reading(lambda _: self._look(module, args))
            self.spent += perf_counter_ns() - began
        except Exception as error:
            self.breaker.fault(error)

    def _look(self, module: Any, args: Any) -> None:
        try:
            self._take(module, args)
        except Exception as error:
            self.breaker.fault(error)

    def _take(self, module: Any, args: Any) -> None:
        given: Any = args[0] if args else None
        if type(given) is not self.adapter.torch.Tensor or self._pass_on is None:
            return
        fact: dict[str, Any] = {
            "model": self._model,
            "layer": type(module).__name__,
            "shape": list(given.shape),
        }
        self._found.append(fact)
        flat = values.dense(given) if given.is_floating_point() and given.grad_fn is None else None
        if flat is None:
            return
        searched = flat.as_strided((min(flat.numel(), values.READ),), (1,)).sum().double().reshape(1)
        vector = self.adapter.torch.cat([values.sampled(flat), searched])
        host = flat if flat.is_cpu else None  # alive during this call only
        self._pass_on(vector, partial(_describe, fact))
        if host is not None and fact.get("constant"):
            fact["constant"] = bool((host == host.reshape(-1)[0]).all())


def _describe(fact: dict[str, Any], host: Any) -> None:
    *sampled, total = values.numbers(host)
    fact |= values.described(sampled)
    fact["nan"] = total != total
    fact["constant"] = fact.get("low") == fact.get("high") and not fact["nonfinite"]
