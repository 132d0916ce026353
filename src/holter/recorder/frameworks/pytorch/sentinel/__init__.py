"""Watches for silent errors: records cheap facts about a training at a few steps.

Each such step is one event `sentinel`; the rules of folder `learning` read these events. Read `due` (which
steps), `samples` (fingerprints of parameters), `flips` (elements that change by themselves), `models` (what
trains), `losses` (the graph of a loss), `labels` and `inputs` with `values` (data), `batches` (fingerprints
of batches), `ranks` (exchange), `evaluating`, `graphs` and `untracked` with `callers` (evaluations),
`precision` (autocast), `clipping`, `schedules` (of rates) and `resuming` (checkpoints) too. Nothing here
waits for a device, draws a random number, changes a tensor or keeps one alive.
"""

from __future__ import annotations

import itertools
import os
import weakref
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.sentinel import labels, samples
from holter.recorder.frameworks.pytorch.sentinel.batches import BatchPrints
from holter.recorder.frameworks.pytorch.sentinel.clipping import ClipOrder, share_left
from holter.recorder.frameworks.pytorch.sentinel.due import DueSteps
from holter.recorder.frameworks.pytorch.sentinel.evaluating import EvaluationWatch
from holter.recorder.frameworks.pytorch.sentinel.flips import Flips
from holter.recorder.frameworks.pytorch.sentinel.graphs import GraphWatch
from holter.recorder.frameworks.pytorch.sentinel.inputs import InputWatch
from holter.recorder.frameworks.pytorch.sentinel.losses import classes, operations
from holter.recorder.frameworks.pytorch.sentinel.models import ModelFacts
from holter.recorder.frameworks.pytorch.sentinel.precision import PrecisionWatch
from holter.recorder.frameworks.pytorch.sentinel.ranks import exchange
from holter.recorder.frameworks.pytorch.sentinel.resuming import Resuming
from holter.recorder.frameworks.pytorch.sentinel.schedules import Schedules
from holter.recorder.frameworks.pytorch.sentinel.untracked import TrainingModeWatch
from holter.recorder.frameworks.pytorch.tensors.names import gradients_freed
from holter.recorder.sampling.other_threads import exists
from holter.recorder.tensors.schedule import NEVER
from holter.schema.record import ENV_SENTINEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.distributed import Distributed
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.evaluations import Evaluations
    from holter.recorder.frameworks.pytorch.stepping.roots import Roots
    from holter.recorder.frameworks.pytorch.tensors.arrivals import Arrivals
    from holter.recorder.frameworks.pytorch.tensors.names import Models
    from holter.recorder.patches import Patches

_CHECKED = 4
"""Parameters of an optimizer whose gradients show whether they were cleared."""


@dataclass(slots=True)
class _Facts:
    """What one step shows; written once nothing is on its way from a device."""

    document: dict[str, Any] = field(default_factory=dict)
    received: set[int] = field(default_factory=set)
    """Ids of parameters that had a gradient at an optimizer's step."""
    held: dict[int, set[int]] = field(default_factory=dict)
    """Ids of the parameters of each optimizer that stepped, by its id."""
    cleared: set[int] = field(default_factory=set)
    """Ids of optimizers whose gradients were absent or zero when a backward pass began."""
    kept: set[int] = field(default_factory=set)
    """Ids of optimizers of which a backward pass found the gradients of the step before."""
    stepped: list[dict[str, Any]] = field(default_factory=list)
    waiting: int = 1


class Sentinel:
    """Takes the facts at steps that are due; the recorder of tensors calls it."""

    def __init__(
        self,
        adapter: AdapterState,
        models: Models,
        arrivals: Arrivals,
        reading: Callable[[Callable[[int], None]], None],
    ) -> None:
        self.adapter = adapter
        self.on = os.environ.get(ENV_SENTINEL) != "0"
        self.breaker = adapter.breaker("sentinel")
        self._models, self._arrivals = models, arrivals
        self._facts = _Facts()
        self._optimizers: dict[int, tuple[int, Any, list[Any]]] = {}
        """Number of each optimizer that has stepped; it and some parameters, as weak references; by id."""
        self._numbers = itertools.count()
        self._names: tuple[str, ...] = ()
        self._held: set[int] = set()
        self._distributed: Distributed | None = None
        self._batches = BatchPrints(adapter)
        self._inputs = InputWatch(adapter, reading)
        self._flips = Flips(adapter.torch)
        self._facts_of_models = ModelFacts(models)
        self._precision, self._clips = PrecisionWatch(adapter), ClipOrder(adapter)
        self._schedules, self._resuming = Schedules(adapter), Resuming(adapter)
        self._due = DueSteps()
        self._spent = 0
        self._values = True  # inputs and labels are described
        self._thread = 0  # that trains

    def attach(
        self, patches: Patches, roots: Roots, distributed: Distributed, evaluations: Evaluations
    ) -> None:
        """Watch batches, evaluations, precision, schedules and checkpoints."""
        if self.on:
            self._distributed = distributed
            self._batches.attach(patches)
            EvaluationWatch(self.adapter, roots).attach(patches)
            TrainingModeWatch(self.adapter, roots, evaluations, self._held).attach(patches)
            patches.later(self._inputs.end)
            for part in (self._precision, self._schedules, self._resuming):
                part.attach(patches)
            GraphWatch(self.adapter, roots).attach(patches)

    def next(self, step: int) -> int:
        """Return the first step from `step` on that is due."""
        return self._due.next(step) if self.on and self.breaker.on else NEVER

    def meet_optimizer(self) -> None:
        """Begin anew with the steps that are due, when an optimizer steps for the first time."""
        step = self.adapter.session.step
        if self._alone() and self._due.begin_anew(step):
            self.adapter.wake_at = step

    def begin(self) -> None:
        """Prepare for a step that is due."""
        self._facts = facts = _Facts()
        self._precision.begin()
        self._clips.begin()
        self._values = self._due.describes_data(self.adapter.session.step)
        if self._values:
            facts.document["inputs"] = self._inputs.begin(partial(self._pass_on, facts))

    def read(self) -> None:
        """Read what the optimizers hold as the step begins."""
        if self._optimizers and self._thread == get_ident():
            began = perf_counter_ns()
            self._flips.begin()
            self._spent += perf_counter_ns() - began

    def on_forward(self, model: Any) -> None:
        """Look at a model that the loop is about to call."""
        if self.on:
            self._inputs.on_forward(model)

    def on_compiler(self) -> None:
        """Remove the hook of modules before a compiler compiles it."""
        self._inputs.end()

    def clip(self, limit: float | None) -> None:
        """Note that the training clips gradients."""
        if self._alone():
            self._clips.clip(limit)

    def clipped(self, norm: Any, limit: Any) -> None:
        """Note the norm before clipping, which the function that clips has returned."""
        if type(norm) is not self.adapter.torch.Tensor or not self._alone():
            return
        document = self._facts.document

        def arrived(host: Any) -> None:
            document["clips_to"] = max(document.get("clips_to", 0.0), share_left(host, limit))

        self._pass_on(self._facts, norm.detach().double().reshape(1), arrived)

    def on_loss(self, graph: Any, *, scaled: bool) -> None:
        """Look at the begin of a backward pass: the operations of the loss, and gradients that are left."""
        self._inputs.remove()
        if not self._alone():
            return
        facts, began = self._facts, perf_counter_ns()
        if "loss" not in facts.document:
            facts.document["loss"] = operations(graph.grad_fn)
            facts.document["classes"] = classes(graph)
            if self._values:
                facts.document["labels"] = labels.look(graph, partial(self._pass_on, facts))
        self._precision.on_loss(graph, scaled=scaled)
        for key, (_, _, parameters) in self._optimizers.items():
            if key not in facts.cleared:
                left = samples.gradients_left([one() for one in parameters])
                if left is not None:
                    (facts.kept if left else facts.cleared).add(key)
        self._spent += perf_counter_ns() - began

    def before(self, optimizer: Any, *, skipped: bool = False) -> None:
        """Take the facts of an optimizer before its step, or when a scaler skips the step."""
        self._inputs.remove()
        if not self._alone():
            return
        facts, began, key = self._facts, perf_counter_ns(), id(optimizer)
        step = self.adapter.session.step
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        self._models.learn(step, parameters)
        # Freed gradients count as received: the rules must not miss them.
        got = (
            parameters if gradients_freed(optimizer) else [one for one in parameters if one.grad is not None]
        )
        number, met, _ = self._optimizers.get(key, (0, None, None))
        if met is None or met() is not optimizer:  # it may have the address of an earlier one
            number = next(self._numbers)
            self._optimizers = {at: one for at, one in self._optimizers.items() if one[1]() is not None}
        rates = [group.get("lr") for group in optimizer.param_groups]
        facts.stepped.append(
            {
                "number": number,
                "class": type(optimizer).__qualname__,
                "lr": max((one for one in rates if isinstance(one, (int, float))), default=None),
                "parameters": len(parameters),
                "skipped": skipped,
            }
        )
        self._clips.before()
        self._precision.before(parameters)
        self._resuming.before(optimizer, parameters)
        facts.held[key] = set(map(id, parameters))
        self._held |= facts.held[key]
        facts.received.update(map(id, got))
        self._note_received(facts)
        self._optimizers[key] = number, weakref.ref(optimizer), samples.weakly(got[-_CHECKED:])
        self._sample(facts, optimizer, parameters)
        self._spent += perf_counter_ns() - began

    def _alone(self) -> bool:
        """Return whether only this thread trains; the watch ends for good when two threads train at once.

        Torch computes and frees gradients without the interpreter lock, so a read from another thread can
        crash the process. A thread that has ended trains no more.
        """
        if self._thread != get_ident():
            if exists(self._thread):
                self.on = False
            self._thread = get_ident()
        return self.on

    def _note_received(self, facts: _Facts) -> None:
        received = facts.received
        others = (one for one, _ in self._models.named() if id(one) not in received)
        received |= {id(one) for one in others if self.on and one.grad is not None}  # `on` may change here

    def _sample(self, facts: _Facts, optimizer: Any, parameters: list[Any]) -> None:
        """Take fingerprints of the parameters of one optimizer and of their gradients."""
        chosen = samples.chosen(self.adapter.torch, parameters)
        if chosen is None:
            return
        named = [self._models.parameter(one, 0, at).name for at, one in chosen.owners]
        document = facts.document
        document["sharded"] = document.get("sharded", False) or chosen.sharded
        key, step = id(optimizer), self.adapter.session.step
        types = [one.dtype for _, one in chosen.owners]
        vector, skipped, first = self._flips.vector(key, chosen)
        sizes = chosen.sizes  # and nothing else of it: a parameter must not live longer

        def arrived(host: Any) -> None:
            taken = samples.prints(host[skipped:], sizes)
            flip = self._flips.compared(key, step, host, skipped, first, sizes[: len(named)], types)
            if flip is not None:
                document["flip"] = flip | {"parameter": named[flip["parameter"]]}
            document.setdefault("names", []).extend(named)
            for what, values in taken.items():
                document.setdefault(what, []).extend(values)

        self._pass_on(facts, vector, arrived)

    def _pass_on(self, facts: _Facts, vector: Any, call: Callable[[Any], None]) -> None:
        """Call `call` once a vector is on the host; the facts are written after that."""
        facts.waiting += 1

        def arrived(host: Any) -> None:
            try:
                call(host)
            finally:
                self._write(facts)

        self._arrivals.pass_on(vector, arrived)

    def finish(self, step: int, began: int) -> None:
        """Write the facts of a step; `began`: when the boundary began, ns."""
        facts, self._facts = self._facts, _Facts()
        if not self._alone():
            return
        if facts.stepped:
            self._note_received(facts)  # again, because an optimizer may call a closure
            for one, (key, held) in zip(facts.stepped, tuple(facts.held.items()), strict=False):
                one["received"] = len(held & facts.received)
                one["cleared"] = True if key in facts.cleared else False if key in facts.kept else None
            facts.document |= {
                "time": began,
                "step": step,
                "finite_loss": self.adapter.healthy_step == step,
                "optimizers": facts.stepped,
                **self._facts_of_models.take(facts.received, facts.held, self._held),
                "batches": self._batches.take(),
                **exchange(self.adapter.torch, self._distributed, self._models.last and self._models.last()),
                **self._precision.facts(),
                **self._clips.facts(),
                **self._resuming.facts(),
                "schedules": self._schedules.facts(),
            }
            self._write(facts)
        self._inputs.end()
        self._flips.end()
        now = perf_counter_ns()
        self._spent += now - began
        self._due.adapt(step, now, self._spent + self._inputs.spent)
        self._spent = self._inputs.spent = 0
        self._batches.begin()

    def _write(self, facts: _Facts) -> None:
        facts.waiting -= 1
        if facts.waiting:
            return
        names = tuple(facts.document.pop("names", ()))
        if names != self._names:  # long, and mostly the same
            self._names = names
            facts.document["names"] = list(names)
        self.adapter.session.journal("sentinel", facts.document | samples.packed(facts.document))
