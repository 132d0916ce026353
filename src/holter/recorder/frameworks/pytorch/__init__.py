"""Records a PyTorch training loop: attaches to torch once it is loaded, and detaches completely.

Read the modules in this order: `step_hooks` and `adapter_state` (shared state; its hot half is compiled),
`steps` (where a step ends), `gpu_times`, `roots` (forward passes), `backward`, `loss_units`, `evaluations`,
`loaders` and `batches` (data loading), `stacks`, `fetching` and `paths` (time inside a dataset), `transfers`,
`saving`, `distributed`, `compilers`, and the folder `tensors`. Each module installs its hooks with `patches`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holter.recorder.frameworks.pytorch.compilers import Compilers
from holter.recorder.frameworks.pytorch.data.batches import Batches
from holter.recorder.frameworks.pytorch.data.loaders import Loaders
from holter.recorder.frameworks.pytorch.data.transfers import Transfers
from holter.recorder.frameworks.pytorch.distributed import Distributed
from holter.recorder.frameworks.pytorch.saving import watch_checkpoints
from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
from holter.recorder.frameworks.pytorch.stepping.backward import Backward
from holter.recorder.frameworks.pytorch.stepping.evaluations import Evaluations
from holter.recorder.frameworks.pytorch.stepping.gpu_times import GpuTimer
from holter.recorder.frameworks.pytorch.stepping.roots import Roots
from holter.recorder.frameworks.pytorch.stepping.steps import StepClock
from holter.recorder.frameworks.pytorch.stepping.unused_optimizers import UnusedOptimizers
from holter.recorder.frameworks.pytorch.tensors import TensorRecorder
from holter.recorder.look import Look, mode_from_environment
from holter.recorder.patches import Patches
from holter.recorder.sampling.loop_samples import LoopSampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session


def attach(session: Session) -> Callable[[], None]:
    """Record torch for `session`; return a function that removes every hook.

    `torch` must be loaded. When a part cannot be attached, because this torch lacks the function that it
    hooks, the recorder reports a fault and attaches the other parts.
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
    evaluations = Evaluations(adapter, roots, backward.units)
    tensors = TensorRecorder(adapter, clock, roots, backward)

    def detach_training() -> None:
        training.undo()
        roots.detach()
        backward.flush()

    loaders = Loaders(adapter)
    batches = Batches(adapter, detach_training)
    loaders.before_next = clock.end_stale
    loaders.next_batch = clock.next_batch
    loaders.exhausted = clock.exhausted
    loaders.end_unseen_step = roots.end_unseen_step

    def attach_sentinel(patches: Patches) -> None:
        tensors.sentinel.attach(patches, roots, distributed, evaluations)

    parts = {
        "steps": clock.attach,
        "forward": lambda patches: roots.attach(),
        "eval": lambda patches: patches.before(torch.nn.Module, "eval", roots.on_eval, roots.breaker),
        "backward": backward.attach,
        "unused_optimizers": UnusedOptimizers(adapter, clock).attach,
        "evaluation": evaluations.attach,
        "h2d": transfers.attach,
        "checkpoint": lambda patches: watch_checkpoints(adapter, patches),
        "communication": distributed.attach,
        "compile": compilers.attach,
        "tensors": tensors.attach,
        "sentinel": attach_sentinel,
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
    sampler = LoopSampler(session, lambda: clock.thread, *torch.__path__)
    look = Look(session, mode_from_environment(), lambda: adapter.compiles, sampler.sample_any)
    gpu_times = GpuTimer(adapter, torch.cuda)

    def woke(part: int) -> None:
        look.woke(part)
        gpu_times.woke()

    sampler.on_wake = woke
    session.windows.automatic = look
    roots.on_evaluation.append(look.evaluation)
    try:
        yields = session.breaker("pytorch.look")
        training.before(torch.profiler._KinetoProfile, "__init__", lambda *_, **__: look.give_up(), yields)
    except Exception as error:
        session.fault("pytorch.look", error)

    def sample() -> None:
        adapter.boundary_calls.discard(sample)
        try:
            sampler.learn()
        except Exception as error:
            session.fault("pytorch.loop_samples", error)

    def meet_optimizer() -> None:
        roots.discover()
        tensors.sentinel.meet_optimizer()
        adapter.boundary_calls.add(sample)

    clock.on_new_optimizer = meet_optimizer
    adapter.boundary_calls.add(sample)
    adapter.note_device("cpu")
    session.watch_phases = adapter.watch_phases
    session.torch_parts = adapter, clock, roots, backward
    session.before_end = adapter.before_end_of_step

    def detach() -> None:
        session.watch_phases = session.torch_parts = session.before_end = None
        adapter.boundary_calls.discard(sample)
        sampler.stop()
        gpu_times.stop()
        look.give_up()
        session.windows.automatic = None
        loading.undo()
        detach_training()

    return detach
