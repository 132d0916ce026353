"""Records H2D spans: copies from host memory to a device, one span for each `.to` or `.cuda`."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.patches import Patches, hide
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.roots import Roots

H2D = int(Phase.H2D)


class Transfers:
    """Times host-to-device copies on the host, where an asynchronous copy is short."""

    def __init__(self, adapter: AdapterState, roots: Roots) -> None:
        self.adapter = adapter
        self.roots = roots
        self.breaker = adapter.breaker("h2d")

    def attach(self, patches: Patches) -> None:
        """Wrap the methods that move a tensor or a module to a device."""
        torch, tensors = self.adapter.torch, Patches()
        for name in ("to", "cuda"):
            tensors.wrap(torch.Tensor, name, self._watch_tensor)
            patches.wrap(torch.nn.Module, name, self._watch_module)
        patches.later(tensors.undo)
        self.adapter.without_devices = tensors.undo

    def _watch_tensor(self, original: Any) -> Any:
        is_compiling, breaker, write = self.adapter.is_compiling, self.breaker, self._write

        def move(self: Any, *args: Any, **kwargs: Any) -> Any:
            # Some libraries convert each argument of each operation: most calls return the tensor itself.
            begin = perf_counter_ns()
            try:
                result = original(self, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            if result is not self and not is_compiling() and breaker.on:
                try:
                    write(begin, self, result)
                except Exception as error:
                    breaker.fault(error)
            return result

        return move

    def _write(self, begin: int, tensor: Any, result: Any) -> None:
        now = perf_counter_ns()
        # A subclass, or a mode that watches functions, would see the read of `is_cpu`.
        if self.adapter.torch.overrides.has_torch_function_unary(tensor) or not tensor.is_cpu:
            return
        if result.is_cpu or self.adapter.states.current.moving:
            return
        size = result.numel() * result.element_size()
        name = self.adapter.session.name(result.device.type)
        self.adapter.states.current.add(H2D, name, begin, now - begin, float(size))

    def _watch_module(self, original: Any) -> Any:
        states, is_compiling, breaker = self.adapter.states, self.adapter.is_compiling, self.breaker
        roots, write = self.roots, self._write_module

        def move(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(self, *args, **kwargs)
            if (state := states.current).moving or not breaker.on:
                try:
                    return original(self, *args, **kwargs)
                except BaseException as error:
                    hide(error)
                    raise
            state.moving = True  # one span for the module, not one for each parameter
            before = next(self.parameters(), None)
            from_host = before is not None and before.device.type == "cpu"
            begin = perf_counter_ns()
            try:
                return original(self, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                state.moving = False
                try:
                    roots.on_move(self)
                    if from_host:
                        write(begin, self)
                except Exception as error:
                    breaker.fault(error)

        return move

    def _write_module(self, begin: int, module: Any) -> None:
        now = perf_counter_ns()
        after = next(module.parameters(), None)
        if after is None or after.device.type == "cpu":
            return
        self.adapter.note_device(after.device.type)
        size = sum(p.numel() * p.element_size() for p in module.parameters())
        name = self.adapter.session.name(f"{type(module).__qualname__} to {after.device.type}")
        self.adapter.states.current.add(H2D, name, begin, now - begin, float(size))
