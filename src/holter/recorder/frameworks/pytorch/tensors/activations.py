"""Reads inputs and outputs of modules, with hooks on all modules in passes that are due.

Labels and predictions of functional losses are read from the graph that keeps them for the backward pass. No
function is wrapped, and nothing is read before a backward pass begins in a step that is due.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, deque
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.stepping.adapter_state import EVAL, PREDICT, TRAIN
from holter.recorder.frameworks.pytorch.tensors.names import ACTIVATIONS, class_name, module_names
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
_LOSS_NODE = re.compile(
    r"(NllLoss|NllLoss2D|BinaryCrossEntropy|BinaryCrossEntropyWithLogits|MseLoss|SmoothL1Loss|HuberLoss)"
    r"Backward\d*"
)
"""Autograd's names of loss functions that keep their arguments as `self` and `target`."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MAX_NODES = 32
"""Nodes searched from the loss on: scripts weight, add and average losses, but not much more."""
_MAX_DEPTH = 8


class Activations:
    """Reads forward passes of models, and loss modules that are called after them."""

    def __init__(self, adapter: AdapterState, roots: Roots, sink: Sink, time_budget: TimeBudget) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("activations")
        self.collections: Sequence[Collection] = ()
        """Collections that may contain inputs and outputs of modules."""
        self.names_seen: set[str] = set()
        self.observed: Callable[[], bool] = lambda: False
        """Returns whether torch operations of the recorder would disturb the script now."""
        self._roots = roots
        self._sink = sink
        self._time_budget = time_budget
        self._handles: list[Any] = []
        self._due: list[Collection] = []
        self._mode = TRAIN
        self._calls: Counter[int] = Counter()
        """Forward passes so far in modes other than training."""
        self._indices: Counter[str] = Counter()
        """Tensors so far of this step, by name without number: repeated calls of a module go on counting."""
        self._names: dict[int, str] = {}
        self._root = 0
        self._saved_eval = -1
        self._loss_module = -1
        """The last step in which a module computed a loss."""
        adapter.on_eval_loss = self.on_eval_loss
        self.step = -1
        """The step of this numbering; micro-batches of one step go on counting."""

    def on_forward(self, module: Any) -> None:
        """Install the hooks before the loop calls a model, if this pass is due."""
        try:
            mode = PREDICT if self.adapter.predicting else TRAIN if module.training else EVAL
            step, stride = self.adapter.session.step, self.adapter.session.stride
            number = step
            if mode != TRAIN:
                number, stride = self._calls[mode], 1
                self._calls[mode] += 1
            due = [one for one in self.collections if one.due(MODES[mode], number, stride)]
            if not due or (mode == EVAL and self._saved_eval == step):
                self.remove()
                return
            if self._roots.compiled:
                notice = "inputs and outputs of modules are not saved; weights and gradients are"
                self._sink.files.tell_once("compiler", f"a compiler is in use: {notice}")
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
        """Save the loss of a backward pass, and its inputs, if the step is due.

        The pass begins from `graph`, which is the loss itself or a scaled loss.
        """
        step, stride = self.adapter.session.step, self.adapter.session.stride
        due = [one for one in self.collections if "loss" in one.sources and one.due("train", step, stride)]
        if due:
            if step != self.step:
                self._indices.clear()
                self.step = step
            self._loss(loss, due, step, TRAIN)
        due = [one for one in self.collections if "input" in one.sources and one.due("train", step, stride)]
        if due and self._loss_module != step:
            self._functional(graph, due, step)

    def _loss(self, loss: Any, due: Sequence[Collection], step: int, mode: int) -> None:
        self._sink.take(loss, TensorInfo(self._named("loss"), "loss", "loss"), due, step, mode)

    def _named(self, name: str, *, number: bool = False) -> str:
        """Return the name of the next tensor with this base name; `number`: also the first has a number."""
        again = self._indices[name]
        self._indices[name] += 1
        name = f"{name}_{again}" if again or number else name
        self.names_seen.add(name)
        return name

    def on_eval_loss(self, loss: Any) -> None:
        """Save a loss that a function computed during an evaluation, if that pass is due."""
        due = [one for one in self._due if "loss" in one.sources]
        if not due or not self._handles or self._mode == TRAIN or self.observed():
            return
        torch = self.adapter.torch
        with torch._C.DisableTorchFunction(), torch.no_grad():
            self._loss(loss, due, self.adapter.session.step, self._mode)

    def _functional(self, loss: Any, due: Sequence[Collection], step: int) -> None:
        """Save the inputs of a loss that a function, not a module, computed."""
        torch = self.adapter.torch
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for name, role, value in _loss_inputs(loss):
                self._sink.take(value, TensorInfo(self._named(name), "input", role), due, step, TRAIN)

    def _install(self) -> None:
        if self._handles:
            return
        register = self.adapter.torch.nn.modules.module.register_module_forward_hook
        try:
            self._handles.append(register(self._after, with_kwargs=True))
        except TypeError:  # before torch 2.1, hooks get positional arguments only
            self._handles.append(register(lambda module, args, result: self._after(module, args, {}, result)))

    def remove(self) -> None:
        """Remove the hooks."""
        while self._handles:
            self._handles.pop().remove()

    def _after(self, module: Any, args: Any, kwargs: Any, result: Any) -> None:
        # Tensors that a backward pass recomputes were saved when they were computed first.
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
        name = self._named(f"{under}_{key}") if key else self._named(under, number=True)
        self._sink.take(value, TensorInfo(name, kind, role, root), self._due, step, mode)


def _tensors(tensor: type, value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of a value depth-first, with the names of the keys or fields that contain them."""
    if isinstance(value, tensor):
        yield key, value
    elif depth > _MAX_DEPTH:
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


def loss_nodes(loss: Any) -> Iterator[tuple[str, Any]]:
    """Yield the functions that computed a loss: autograd's name, such as `NllLoss`, and the node."""
    waiting = deque([loss.grad_fn])
    seen: set[Any] = set()
    while waiting and len(seen) < _MAX_NODES:
        node = waiting.popleft()
        if node is None or node in seen:
            continue
        seen.add(node)
        match = _LOSS_NODE.fullmatch(node.name())
        if match is None:
            waiting += [before for before, _ in node.next_functions]
            continue
        yield match[1], node


def _loss_inputs(loss: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield name, role and tensor of the inputs of the functions that computed a loss.

    The first input of a classification loss is the logarithm of probabilities: scores up to a constant.
    """
    for function, node in loss_nodes(loss):
        name = _WORDS.sub("_", function).lower()
        yield f"{name}_input_0", "logits", node._saved_self
        yield f"{name}_input_1", "labels", node._saved_target
