"""Learns which module ran an operation, from the sequence numbers of one forward pass.

Hooks on all modules, for that one pass, note between which numbers each module ran; the graph of the same
pass
notes which numbers used which parameters first. In a later pass the parameter used last before an operation
tells how far its numbers are shifted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.graph import parameters_used
from holter.recorder.frameworks.pytorch.tensors.names import class_name, inner, module_names

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

MAX_CALLS = 100_000
ATTEMPTS = 10
"""Forward passes that are followed until one is found that a backward pass follows."""


class Places:
    """The calls of modules in one forward pass in training mode."""

    def __init__(self, adapter: AdapterState) -> None:
        self._adapter = adapter
        self._calls: list[tuple[int, int, str]] = []
        """First number, number after the last, name."""
        self._used: dict[str, int] = {}
        self._handles: list[Any] = []
        self._numbers = getattr(adapter.torch._C._autograd, "_get_sequence_nr", None)
        self._attempts = 0
        self.learned = self._numbers is None
        """Whether nothing is left to learn, or nothing can be."""

    def learn(self, module: Any) -> None:
        """Follow the forward pass of a model that begins now."""
        self.remove()  # of a pass that raised
        self._attempts += 1
        self.learned = self.learned or self._attempts > ATTEMPTS
        if self.learned or not self._adapter.torch.is_grad_enabled():
            return
        names = module_names(module)
        begins: list[int] = []
        whole = class_name(inner(module))
        first = self._numbers()  # type: ignore[misc]
        states, numbers, calls = self._adapter.states, self._numbers, self._calls
        calls.clear()

        def before(module: Any, args: Any) -> None:
            if not states.current.backward:
                begins.append(numbers())  # type: ignore[misc]

        def after(module: Any, args: Any, result: Any) -> None:
            # The model's own hook before its call may have come too late to be called.
            name = names.get(id(module))
            if states.current.backward or len(calls) >= MAX_CALLS or not (begins or name == whole):
                return
            begin = begins.pop() if begins else first
            if name is not None:
                calls.append((begin, numbers(), name))  # type: ignore[misc]
            if name == whole:
                self.remove()

        hooks = self._adapter.torch.nn.modules.module
        self._handles += [
            hooks.register_module_forward_pre_hook(before),
            hooks.register_module_forward_hook(after),
        ]

    def learn_parameters(self, loss: Any, names: dict[int, str]) -> None:
        """Take the graph of the pass that was followed; with it the places are known."""
        if not self.learned and self._calls and not self._handles:
            self._used = parameters_used(loss, names)
            self.learned = bool(self._used)

    def remove(self) -> None:
        """Take the hooks out."""
        while self._handles:
            self._handles.pop().remove()

    def module(self, at: int, used: dict[str, int]) -> str | None:
        """Return the innermost module that ran operation number `at`; "" when none did, as for a loss.

        Args:
            at: A number of a later pass.
            used: Numbers of that pass at which parameters were used first.

        Returns:
            None when it is not known.
        """
        known = [(first, name) for name, first in used.items() if name in self._used]
        if not known:
            return None
        first, name = max((one for one in known if one[0] <= at), default=min(known))
        place = at - first + self._used[name]
        around = [(end - begin, name) for begin, end, name in self._calls if begin <= place < end]
        return min(around)[1] if around else ""
