"""Records tensors of a PyTorch training: decides which steps are due, and reads the tensors.

Read the modules in this order: `updates` (parameters and gradients at an optimizer's step), `activations`
(inputs and outputs of modules), `sink` with `statistics` and `values` (the kept numbers), `arrivals` (copies
from a device), `default_statistics`, `nonfinite` with `graph` and `places`.

A step that is not due costs two comparisons: no hook is installed, and no function is called.
"""

from __future__ import annotations

import atexit
import os
import types
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.sentinel import Sentinel
from holter.recorder.frameworks.pytorch.tensors.activations import Activations
from holter.recorder.frameworks.pytorch.tensors.arrivals import Arrivals
from holter.recorder.frameworks.pytorch.tensors.default_statistics import DefaultStatistics
from holter.recorder.frameworks.pytorch.tensors.explicit import TorchExplicitSaver
from holter.recorder.frameworks.pytorch.tensors.names import Models
from holter.recorder.frameworks.pytorch.tensors.nonfinite import Nonfinite
from holter.recorder.frameworks.pytorch.tensors.sink import Sink
from holter.recorder.frameworks.pytorch.tensors.updates import Updates
from holter.recorder.patches import hide
from holter.recorder.tensors import requests
from holter.recorder.tensors.schedule import NEVER, next_due
from holter.recorder.tensors.time_budget import TimeBudget
from holter.recorder.tensors.writing import TensorFiles
from holter.schema.tensor_spool import ENV_SAVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.backward import Backward
    from holter.recorder.frameworks.pytorch.stepping.roots import Roots
    from holter.recorder.frameworks.pytorch.stepping.steps import StepClock
    from holter.recorder.patches import Patches
    from holter.recorder.tensors.collections import Collection

_AT_UPDATE = {"parameter", "buffer", "gradient", "optimizer_state"}
_IN_FORWARD = {"input", "output", "loss", "custom"}


class TensorRecorder:
    """Decides at each step boundary whether the next step is due, and installs the hooks for it."""

    def __init__(self, adapter: AdapterState, clock: StepClock, roots: Roots, backward: Backward) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("tensors")
        self.collections: list[Collection] = []
        self._clock, self._roots, self._backward = clock, roots, backward
        # A script that saved tensors before it imported torch continues in the same files.
        self._files = getattr(adapter.session.explicit, "files", None) or TensorFiles(adapter.session)
        self._arrivals = Arrivals(adapter)
        self._time_budget = TimeBudget(
            self._files, lambda took: adapter.states.current.thread_spool.spent(took)
        )
        self._sink = Sink(adapter, self._files, self._arrivals, self._time_budget)
        self._models = Models()
        self._updates = Updates(adapter.torch, self._models, self._sink)
        self._activations = Activations(adapter, roots, self._sink, self._time_budget)
        self._nonfinite = Nonfinite(adapter, self._models, self._sink)
        self._explicit = TorchExplicitSaver(adapter, clock, self._models, self._sink, self._time_budget)
        self._default_statistics = DefaultStatistics(adapter, self._arrivals, self._nonfinite.on_gradients)
        self.sentinel = Sentinel(adapter, self._models, self._arrivals, self._reading)
        self._due: Sequence[Collection] = ()
        self._takes_defaults = self._takes_facts = False
        self._armed = -1
        """The step for which hooks are installed; -1 without hooks."""
        torch = adapter.torch
        self._shield = torch._C.DisableTorchFunction
        """Hides the recorder's operations from modes that watch functions or set a default device."""
        self._modes = getattr(torch._C, "_len_torch_dispatch_stack", int)
        self._activations.observed = self._observed
        self._unmatched = requests.Unmatched()
        self._clipping = False

    def attach(self, patches: Patches) -> None:
        """Read the requested collections and prepare the first step."""
        self.watch(requests.from_environment(os.environ.get(ENV_SAVE)))
        roots, backward, adapter = self._roots, self._backward, self.adapter
        roots.on_compiler = self._on_compiler
        backward.on_nonfinite = self._nonfinite.on_loss
        backward.on_late = self._nonfinite.on_late
        adapter.wake = self._wake
        adapter.session.watch = self.watch
        adapter.session.explicit = self._explicit
        utils = adapter.torch.nn.utils
        for owner in (utils, utils.clip_grad):
            patches.wrap(owner, "clip_grad_norm_", self._watch_clip)
            patches.wrap(owner, "clip_grad_value_", self._watch_clip)
        atexit.register(self._finish)
        os.register_at_fork(after_in_child=self._forked)
        patches.later(self.detach)

    def detach(self) -> None:
        """Remove everything."""
        atexit.unregister(self._finish)
        self._disarm()
        self._nonfinite.places.remove()
        self.adapter.on_forward = None
        self._backward.on_nonfinite = self._backward.on_late = self.adapter.look = None
        self.adapter.wake_at = NEVER
        self.adapter.session.watch = self.adapter.session.explicit = None
        self._finish()

    def watch(self, collections: Sequence[Collection], model: Any = None) -> None:
        """Save further collections from this step on."""
        if model is not None:
            self._models.add(model)
        self.collections = [one for one in self.collections if one.name not in {c.name for c in collections}]
        self.collections += collections
        self._files.describe(collections)
        self._explicit.collections = self.collections
        self._activations.collections = [one for one in self.collections if one.sources & _IN_FORWARD]
        self.adapter.look = self._on_loss
        self.adapter.on_forward = self._on_forward
        self._unmatched.begin()
        self._disarm()
        self._prepare(self.adapter.session.step)

    # -- which steps

    def _prepare(self, step: int) -> None:
        """Install the hooks if `step` is due; set the step of the next check."""
        schedules = [one.schedules["train"] for one in self.collections if "train" in one.schedules]
        facts, defaults = self.sentinel.next(step), self._default_statistics.next(step)
        due, stride = min(next_due(schedules, step), defaults, facts), self.adapter.session.stride
        if due >= step + stride:
            # The boundary before it; without steps that run in one call, that is the end of the step before.
            self.adapter.wake_at = due - 2 * stride + 1
            return
        self.adapter.wake_at = self._armed = step
        self._due = [one for one in self.collections if one.due("train", step, stride)]
        self._takes_defaults, self._takes_facts = defaults < step + stride, facts < step + stride
        self.adapter.on_forward = self.adapter.on_forward or self._models.add
        self._updates.begin()
        self._default_statistics.begin()
        if self._takes_facts:
            self.sentinel.begin()
            self._reading(lambda _: self.sentinel.read())
            self.adapter.look = self._on_loss
            self.adapter.on_forward = self._on_forward
        if self._takes_facts or self._takes_defaults or any(one.sources & _AT_UPDATE for one in self._due):
            self.adapter.before_step = self._before_step
            self.adapter.after_step = self._default_statistics.after if self._takes_defaults else None
            self._clock.on_skipped = partial(self._before_step, skipped=True)
            self._clock.on_scaler = self._default_statistics.note_scale if self._takes_defaults else None
            self._clipping = True

    def _disarm(self) -> None:
        self._armed = -1
        self._due, self._takes_defaults, self._clipping = (), False, False
        self._takes_facts = False
        if self._nonfinite.places.learned and not self._activations.collections:
            self.adapter.look = None
        if self.adapter.look is None:
            self.adapter.on_forward = None
        self.adapter.before_step = self.adapter.after_step = None
        self._clock.on_skipped = self._clock.on_scaler = None
        self._activations.remove()

    def _wake(self) -> None:
        """Handle the boundary of a step that is due, or of the step before it."""
        began = perf_counter_ns()
        session = self.adapter.session
        step = session.step
        try:
            if self._armed >= 0:
                self._end_step(self._armed, began)
            elif self._explicit.waiting:
                self._sink.finish()
            self._explicit.waiting = False
            self._prepare(step + session.stride)
        except Exception as error:
            self.adapter.wake_at = step + 1
            self.breaker.fault(error)
            if not self.breaker.on:
                self.adapter.wake_at = NEVER
        self._time_budget.held(began, session.step)

    def _end_step(self, step: int, began: int) -> None:
        takes_defaults, takes_facts, due = self._takes_defaults, self._takes_facts, self._due
        self._disarm()
        if self._observed():
            return
        with self._shield():
            if takes_facts:
                self.sentinel.finish(step, began)
            if takes_defaults:
                self._default_statistics.finish(step, began)
            self._default_statistics.write_memory(step)
            if due:
                self._unmatched.look(self.collections, self._names_seen())
            self._sink.finish()

    def _names_seen(self) -> set[str]:
        return self._updates.names_seen | self._activations.names_seen | self._explicit.names_seen

    def _observed(self) -> bool:
        """Whether torch operations of the recorder would disturb a dispatch mode or a graph capture."""
        cuda = self.adapter.torch.cuda
        return bool(self._modes()) or (cuda.is_initialized() and cuda.is_current_stream_capturing())

    def _forked(self) -> None:
        """Forget, in a forked child, everything that the parent writes."""
        self._arrivals.forked()
        self._sink.forked()
        self._files.forked()

    # -- where they are read

    def _before_step(self, optimizer: Any, *, skipped: bool = False) -> None:
        if self._armed > self.adapter.session.step:
            return  # a further update of the step before the one that is due
        self._reading(lambda step: self._read_update(optimizer, step, skipped=skipped))

    def _read_update(self, optimizer: Any, step: int, *, skipped: bool) -> None:
        if self._takes_defaults:
            self._default_statistics.before(optimizer, skipped=skipped)
        if self._takes_facts:
            self.sentinel.before(optimizer, skipped=skipped)
        self._updates.update(optimizer, self._due, step, skipped=skipped)

    def _reading(self, read: Callable[[int], None]) -> None:
        if not self.breaker.on or self._observed():
            return
        began = perf_counter_ns()
        try:
            with self._shield():
                read(self.adapter.session.step)
        except Exception as error:
            self.breaker.fault(error)
        self._time_budget.held(began, self.adapter.session.step)

    def _on_forward(self, module: Any) -> None:
        """Handle a call of a model by the loop."""
        self._models.add(module)
        if self._activations.collections:
            self._activations.on_forward(module)
        if self._takes_facts and not self._roots.compiled:
            self.sentinel.on_forward(module)
        places = self._nonfinite.places
        if not places.learned and module.training and not self._roots.compiled:
            places.learn(module)

    def _on_compiler(self) -> None:
        """Remove hooks before a compiler compiles them."""
        self._activations.remove()
        self._nonfinite.places.remove()
        self.sentinel.on_compiler()

    def _on_loss(self, loss: Any, graph: Any) -> None:
        """Handle the begin of a backward pass."""
        places = self._nonfinite.places
        if not places.learned:
            self._models.learn()
            places.learn_parameters(graph, {id(one): what.name for one, what in self._models.named()})
        self._activations.on_loss(loss, graph)
        if self._takes_facts:
            self._reading(lambda _: self.sentinel.on_loss(graph, scaled=loss is not graph))
        elif places.learned and not self._activations.collections:
            self.adapter.look = None
            self.adapter.on_forward = None  # steps that are due set it again, to find new models

    def _watch_clip(self, original: Any) -> Any:
        by_norm = original.__name__ == "clip_grad_norm_"
        # Each may be given by its name, and a call with wrong arguments must fail as without us.
        names = ("parameters", "max_norm" if by_norm else "clip_value", "norm_type")

        def clip(*args: Any, **kwargs: Any) -> Any:
            if self.adapter.is_compiling():
                return original(*args, **kwargs)
            given = dict(zip(names, args, strict=False)) | kwargs
            parameters, limit = given.get(names[0]), given.get(names[1])
            if self._clipping and parameters is not None and limit is not None:
                if isinstance(parameters, self.adapter.torch.Tensor):
                    listed = [parameters]
                else:
                    listed = list(parameters)
                    # A generator stays a generator: torch warns when it is empty.
                    was = isinstance(parameters, types.GeneratorType)
                    parameters = (one for one in listed) if was else listed
                    if args:
                        args = (parameters, *args[1:])
                    else:
                        kwargs["parameters"] = parameters
                kind = float(given.get("norm_type", 2.0)) if by_norm else 0.0
                self._reading(lambda step: self._read_clip(listed, limit, kind, step))
            try:
                norm = original(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            if by_norm and self._takes_facts and limit is not None:
                self._reading(lambda _: self.sentinel.clipped(norm, limit))
            return norm

        return clip

    def _read_clip(self, parameters: list[Any], limit: Any, kind: float, step: int) -> None:
        known = None if getattr(limit, "is_cuda", False) else float(limit)
        if self._takes_facts:
            self.sentinel.clip(known)
        if self._takes_defaults:
            self._default_statistics.clip(parameters, known if kind == 2.0 else None)
        self._updates.clip(parameters, self._due, step)

    def _finish(self) -> None:
        """Write everything that is pending at the end of the training."""
        try:
            if self._armed >= 0 and self._armed == self.adapter.session.step:
                self._disarm()
            self._unmatched.look(self.collections, self._names_seen(), last=True)
            self._arrivals.finish()
            self._sink.flush()
            self._files.end()
        except Exception as error:
            self.breaker.fault(error)
