"""Reads inputs and outputs of modules, with hooks on all modules in passes that are due."""

from __future__ import annotations

import dataclasses
from collections import Counter
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.stepping.adapter_state import EVAL, PREDICT, TRAIN
from holter.recorder.frameworks.pytorch.tensors import losses
from holter.recorder.frameworks.pytorch.tensors.names import ACTIVATIONS, class_name, module_names
from holter.recorder.guard import tell
from holter.recorder.tensors.collections import TensorInfo
from holter.recorder.tensors.schedule import MODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.roots import Roots
    from holter.recorder.frameworks.pytorch.tensors.sink import Sink
    from holter.recorder.tensors.collections import Collection
    from holter.recorder.tensors.time_budget import TimeBudget

_LOSS = ("Loss", "Criterion")
_DEEPEST = 8


class Activations:
    """Watches forward passes of models, and loss modules called after them."""

    def __init__(self, adapter: AdapterState, roots: Roots, sink: Sink, time_budget: TimeBudget) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("activations")
        self.collections: Sequence[Collection] = ()
        """Those that may hold inputs and outputs of modules."""
        self.names_seen: set[str] = set()
        self.observed: Callable[[], bool] = lambda: False
        """Whether nothing of ours may run now."""
        self._roots = roots
        self._sink = sink
        self._time_budget = time_budget
        self._handles: list[Any] = []
        self._due: list[Collection] = []
        self._mode = TRAIN
        self._calls: Counter[int] = Counter()
        """Forward passes so far in modes that count them."""
        self._indices: Counter[str] = Counter()
        """Tensors so far of this step, by name without number: a module called again goes on counting."""
        self._names: dict[int, str] = {}
        self._root = 0
        self._saved_eval = -1
        self._said = False
        self._loss_module = -1
        """The last step in which a module computed a loss."""
        adapter.on_eval_loss = self.on_eval_loss
        self.step = -1
        """The step whose numbering this is; micro-batches of one step go on counting."""

    def on_forward(self, module: Any) -> None:
        """A model is about to be called by the loop: watch this pass if it is due."""
        try:
            mode = PREDICT if self.adapter.predicting else TRAIN if module.training else EVAL
            step = self.adapter.session.step
            number = step
            if mode != TRAIN:
                number = self._calls[mode]
                self._calls[mode] += 1
            due = [one for one in self.collections if one.due(MODES[mode], number)]
            if not due or (mode == EVAL and self._saved_eval == step):
                self.remove()
                return
            if self._roots.compiled:
                self._say_compiled()
                return
            if mode == EVAL:
                self._saved_eval = step
            if step != self.step or mode != self._mode:
                self._indices.clear()
            self.step = step
            self._due, self._mode = due, mode
            self._names = module_names(module)
            self._root = next((key for key, name in self._names.items()), 0)
            self._install()
        except Exception as error:
            self.breaker.fault(error)

    def on_loss(self, loss: Any, graph: Any) -> None:
        """A backward pass begins from a loss: it is a tensor of this step too.

        Args:
            loss: What it is, as the loop knows it.
            graph: What the pass begins from: the same, or scaled.
        """
        step = self.adapter.session.step
        due = [one for one in self.collections if "loss" in one.sources and one.due("train", step)]
        if due:
            if step != self.step:
                self._indices.clear()
                self.step = step
            self._loss(loss, due, step, TRAIN)
        due = [one for one in self.collections if "input" in one.sources and one.due("train", step)]
        if due and self._loss_module != step:
            self._functional(graph, due, step)

    def _loss(self, loss: Any, due: Sequence[Collection], step: int, mode: int) -> None:
        again = self._indices["loss"]
        self._indices["loss"] += 1
        name = f"loss_{again}" if again else "loss"
        self._sink.take(loss, TensorInfo(name, "loss", "loss"), due, step, mode)
        self.names_seen.add(name)

    def on_eval_loss(self, loss: Any) -> None:
        """A function computed a loss while a model evaluates: take it if that pass is saved."""
        due = [one for one in self._due if "loss" in one.sources]
        if not due or not self._handles or self._mode == TRAIN or self.observed():
            return
        torch = self.adapter.torch
        with torch._C.DisableTorchFunction(), torch.no_grad():
            self._loss(loss, due, self.adapter.session.step, self._mode)

    def _functional(self, loss: Any, due: Sequence[Collection], step: int) -> None:
        """Take what a loss was computed from that no module computed."""
        torch = self.adapter.torch
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for under, role, value in losses.given(loss):
                again = self._indices[under]
                self._indices[under] += 1
                name = f"{under}_{again}" if again else under
                self.names_seen.add(name)
                self._sink.take(value, TensorInfo(name, "input", role), due, step, TRAIN)

    def _install(self) -> None:
        if self._handles:
            return
        register = self.adapter.torch.nn.modules.module.register_module_forward_hook
        try:
            self._handles.append(register(self._after, with_kwargs=True))
        except TypeError:  # a torch before 2.1 gives hooks the positional inputs only
            self._handles.append(register(lambda module, args, result: self._after(module, args, {}, result)))

    def remove(self) -> None:
        """Take the hooks out."""
        while self._handles:
            self._handles.pop().remove()

    def _say_compiled(self) -> None:
        if not self._said:
            self._said = True
            tell(
                "a compiler is in use: inputs and outputs of modules are not saved; weights and gradients are"
            )

    def _after(self, module: Any, args: Any, kwargs: Any, result: Any) -> None:
        # What a backward pass recomputes was recorded when it was computed first.
        if self.adapter.is_compiling() or self.adapter.states.current.backward or not self.breaker.on:
            return
        began = perf_counter_ns()
        try:
            torch = self.adapter.torch
            if self.observed():
                return
            with torch._C.DisableTorchFunction(), torch.no_grad():
                self._take(module, args, kwargs, result)
        except Exception as error:
            self.breaker.fault(error)
        self._time_budget.held(began, self.adapter.session.step)

    def _take(self, module: Any, args: Any, kwargs: Any, result: Any) -> None:
        cls = class_name(module)
        name = self._names.get(id(module))
        is_loss = name is None and cls.endswith(_LOSS)
        if name is None:
            if not is_loss:
                return
            name = cls
            self._loss_module = self.adapter.session.step
        root = id(module) == self._root
        function = ACTIVATIONS.get(cls)
        step, mode, tensor = self.adapter.session.step, self._mode, self.adapter.torch.Tensor
        overwritten = getattr(module, "inplace", False)
        inputs = [] if overwritten else list(_tensors(tensor, args)) + list(_tensors(tensor, kwargs))
        for number, (key, value) in enumerate(inputs):
            role = _input_role(module, value, number, root=root, is_loss=is_loss, function=function)
            self._one(f"{name}_input", key, value, "input", role, root, step, mode)
        for key, value in _tensors(tensor, result):
            role = (
                "loss" if is_loss else "logits" if root else f"act_out:{function}" if function else "output"
            )
            self._one(f"{name}_output", key, value, "loss" if is_loss else "output", role, root, step, mode)

    def _one(
        self, under: str, key: str, value: Any, kind: str, role: str, root: bool, step: int, mode: int
    ) -> None:
        if key:
            under = f"{under}_{key}"
        again = self._indices[under]
        self._indices[under] += 1
        name = under if key and not again else f"{under}_{again}"
        self.names_seen.add(name)
        self._sink.take(value, TensorInfo(name, kind, role, root), self._due, step, mode)


def _tensors(tensor: type, value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of a value depth-first; those under a name, as in a mapping, with that name."""
    if isinstance(value, tensor):
        yield key, value
    elif depth > _DEEPEST:
        return
    elif isinstance(value, dict):
        for name, inside in value.items():
            yield from _tensors(tensor, inside, f"{key}_{name}" if key else str(name), depth + 1)
    elif isinstance(value, tuple | list):
        fields = getattr(value, "_fields", None)
        for position, inside in enumerate(value):
            name = key if fields is None else f"{key}_{fields[position]}" if key else fields[position]
            yield from _tensors(tensor, inside, name, depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            inside = getattr(value, field.name, None)
            yield from _tensors(tensor, inside, f"{key}_{field.name}" if key else field.name, depth + 1)


def _input_role(
    module: Any, value: Any, number: int, *, root: bool, is_loss: bool, function: str | None
) -> str:
    if is_loss:
        return "labels" if number else "logits"
    if "Embedding" in type(module).__name__ and not value.is_floating_point():
        return "token_ids"
    if root:
        whole = not value.is_floating_point() and value.dim() == 2
        return "token_ids" if whole else f"model_input:{number}"
    return f"act_in:{function}" if function else "input"
