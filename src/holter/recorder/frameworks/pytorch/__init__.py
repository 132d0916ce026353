"""Records a plain PyTorch loop: attaches to torch once it is loaded, and detaches completely.

Read in this order: `step_hooks` and `adapter_state` (the shared state; its hot half is compiled), `steps` and
`iterations` (where a step ends), `roots` (forward), `backward`, `units` (of losses), `evaluations`, `loaders`
(data), with `stacks`, `fetching` and `paths` for what a dataset does; then `transfers`, `saving`,
`distributed`, `compilers`, and the folder `tensors`. `patches` is how each of them gets in and out.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.compilers import Compilers
from holter.recorder.frameworks.pytorch.data.batches import Batches
from holter.recorder.frameworks.pytorch.data.loaders import Loaders
from holter.recorder.frameworks.pytorch.data.transfers import Transfers
from holter.recorder.frameworks.pytorch.distributed import Distributed
from holter.recorder.frameworks.pytorch.patches import Patches, hide
from holter.recorder.frameworks.pytorch.saving import CheckpointHooks
from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
from holter.recorder.frameworks.pytorch.stepping.backward import Backward
from holter.recorder.frameworks.pytorch.stepping.evaluations import Evaluations
from holter.recorder.frameworks.pytorch.stepping.iterations import Iterations
from holter.recorder.frameworks.pytorch.stepping.listening import watch_phases
from holter.recorder.frameworks.pytorch.stepping.loop_samples import LoopSampler
from holter.recorder.frameworks.pytorch.stepping.roots import Roots
from holter.recorder.frameworks.pytorch.stepping.steps import StepClock
from holter.recorder.frameworks.pytorch.tensors import TensorRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session


def attach(session: Session) -> Callable[[], None]:
    """Record torch for `session`; return what takes every hook out again.

    `torch` must be loaded. A part that cannot be attached (a torch that lacks what it hooks) is a
    fault of its own; the others work.
    """
    torch = sys.modules["torch"]
    training, loading = Patches(), Patches()
    adapter = AdapterState(session, torch)
    clock = StepClock(adapter)
    roots = Roots(adapter, clock)
    backward = Backward(adapter, clock)
    transfers = Transfers(adapter, roots)
    compilers = Compilers(adapter, roots)
    distributed = Distributed(adapter)
    saving = CheckpointHooks(adapter)
    evaluations = Evaluations(adapter, roots, backward.units)
    tensors = TensorRecorder(adapter, clock, roots, backward)
    clock.on_new_optimizer = roots.discover

    def detach_training() -> None:
        training.undo()
        roots.detach()
        backward.flush()

    loaders = Loaders(adapter)
    batches = Batches(adapter, detach_training)
    loaders.before_next = clock.end_stale
    loaders.next_batch = Iterations(adapter, clock).next_batch
    loaders.end_unseen_step = roots.end_unseen_step

    def watch_eval(original: Any) -> Any:
        def eval(self: Any) -> Any:
            try:
                roots.on_eval(self)
            except Exception as error:
                roots.breaker.fault(error)
            try:
                return original(self)
            except BaseException as error:
                hide(error)
                raise

        return eval

    parts = {
        "steps": clock.attach,
        "forward": lambda patches: roots.attach(),
        "eval": lambda patches: patches.wrap(torch.nn.Module, "eval", watch_eval),
        "backward": backward.attach,
        "evaluation": evaluations.attach,
        "h2d": transfers.attach,
        "checkpoint": saving.attach,
        "communication": distributed.attach,
        "compile": compilers.attach,
        "tensors": tensors.attach,
    }
    for name, part in parts.items():
        try:
            part(training)
        except Exception as error:
            session.fault(f"pytorch.{name}", error)
    try:
        loaders.attach(loading)
        batches.attach(loading)
        loading.later(adapter.watch_pauses())
    except Exception as error:
        session.fault("pytorch.data_loading", error)
    sampler = LoopSampler(session, lambda: clock.thread, os.path.join(*torch.__path__, ""))

    def sample() -> None:
        adapter.boundary_calls.discard(sample)
        try:
            sampler.start()
        except Exception as error:
            session.fault("pytorch.loop_samples", error)

    adapter.boundary_calls.add(sample)
    adapter.note_device("cpu")
    session.watch_phases = lambda call: watch_phases(adapter, call)

    def detach() -> None:
        session.watch_phases = None
        adapter.boundary_calls.discard(sample)
        sampler.stop()
        loading.undo()
        detach_training()

    return detach
