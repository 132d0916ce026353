"""Finds the module that ran an operation, from the sequence numbers of one forward pass.

During that pass, hooks on all modules note the sequence numbers at the begin and end of each module. The
graph of the pass contains the number of the first use of each parameter. In a later pass, the last parameter
used before an operation shows by how much the numbers are shifted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.graph import parameters_used
from holter.recorder.frameworks.pytorch.tensors.names import class_name, inner, module_names

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

MAX_CALLS = 100_000
ATTEMPTS = 10
"""Forward passes that are recorded, until a backward pass follows one of them."""


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
        """Whether the places are known, or cannot be found."""

    def learn(self, module: Any) -> None:
        """Record the forward pass of a model that begins now."""
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
            # The hook before the call of the model itself may have come too late.
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
        """Read the graph of the recorded pass, which completes the places."""
        if not self.learned and self._calls and not self._handles:
            self._used = parameters_used(loss, names)
            self.learned = bool(self._used)

    def remove(self) -> None:
        """Remove the hooks."""
        while self._handles:
            self._handles.pop().remove()

    def module(self, at: int, used: dict[str, int]) -> str | None:
        """Return the innermost module that ran operation `at`; "" outside of modules; None if unknown.

        `used` contains the numbers of the first use of each parameter in the same pass.
        """
        known = [(first, name) for name, first in used.items() if name in self._used]
        if not known:
            return None
        first, name = max((one for one in known if one[0] <= at), default=min(known))
        place = at - first + self._used[name]
        around = [(end - begin, name) for begin, end, name in self._calls if begin <= place < end]
        return min(around)[1] if around else ""
