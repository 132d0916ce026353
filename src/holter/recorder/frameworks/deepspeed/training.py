"""Ends the steps of DeepSpeed's engines, and times their work around forward and backward passes."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks._trainer import EVAL, Trainer
from holter.recorder.frameworks.deepspeed.updates import EngineUpdates
from holter.recorder.frameworks.written import size_written
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

_GATHERS = ("AllGatherHandle", "AllGatherCoalescedHandle", "AllReduceCoalescedHandle")
"""Classes of `deepspeed.runtime.zero.partition_parameters` that wait for parameters of other ranks."""


class Training(Trainer):
    """Hooks the classes of engines. An engine owns the steps only while its own function runs.

    In between, a loop may step other optimizers: the step clock of PyTorch then decides what an iteration is,
    and says at the end of `engine.step` whether one has ended.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session, "deepspeed")
        parts: tuple[Any, ...] = session.torch_parts or (None,) * 4
        self._adapter, self._clock, self._roots, self._backward = parts
        self._mine = False
        """Whether losses are taken from the pipeline, in place of those of its micro-batches."""

    def parts(self, engine: Any) -> dict[str, Callable[[], None]]:
        """Return what installs the hooks of each part."""
        return {
            "forward": partial(self._watch_models, engine),
            "steps": partial(self._watch_steps, engine),
            "backward": partial(self._watch_reductions, engine),
            "checkpoint": partial(self._watch_checkpoints, engine),
            "communication": self._watch_gathers,
            "pipeline": self._watch_pipelines,
        }

    # -- parts of a step

    def _watch_models(self, engine: Any) -> None:
        """Let the model in an engine be the root: the engine itself is always in training mode."""
        roots = self._roots
        roots.foreign += (engine,)
        self.patches.later(lambda: setattr(roots, "foreign", tuple(c for c in roots.foreign if c != engine)))

        def made(result: None, one: Any, *_: object, **__: object) -> None:
            roots.on_eval(one.module)

        self.patches.after(engine, "__init__", made, self.breaker)

    def _watch_steps(self, engine: Any) -> None:
        updates = EngineUpdates(self.session, self._adapter, self._clock)
        self.patches.wrap(engine, "_take_model_step", updates.timed)
        self.patches.after(sys.modules[engine.__module__], "clip_grad_norm_", updates.clipped, self.breaker)
        self.patches.later(updates.undo)
        self.patches.after(engine, "step", self._after_step, self.breaker)
        self.fit(engine, "step", lambda *_, **__: self.own_steps())

    def _after_step(self, *_: object, **__: object) -> None:
        if self.session.worked:  # the clock has ended an iteration: this was no micro-batch
            self.end_step()

    def _watch_reductions(self, engine: Any) -> None:
        """Time the end of a backward pass, and read losses before they are scaled."""
        self.time(engine, "allreduce_gradients", Phase.BACKWARD, "allreduce_gradients")
        scaling = sys.modules["deepspeed.runtime.base_optimizer"].ZeROOptimizer
        self.patches.after(scaling, "scale_if_loss", self._backward.remember, self._backward.losses)

    def _watch_checkpoints(self, engine: Any) -> None:
        for name, value in (("save_checkpoint", _size_saved), ("save_16bit_model", size_written)):
            code = self._adapter.code(Phase.CHECKPOINT, f"DeepSpeedEngine.{name}")
            saves = partial(self._adapter.timed, code=code, breaker=self.breaker, flag="saving", value=value)
            self.patches.wrap(engine, name, saves)
        self.time(engine, "load_checkpoint", Phase.ANNOTATION, "DeepSpeedEngine.load_checkpoint")

    def _watch_gathers(self) -> None:
        """Time the wait for parameters, which ZeRO 3 gathers asynchronously."""
        module = sys.modules["deepspeed.runtime.zero.partition_parameters"]
        code = self._adapter.code(Phase.COMMUNICATION, "gather parameters")
        waits = partial(self._adapter.timed, code=code, breaker=self.breaker, flag="waiting")
        for name in _GATHERS:
            if hasattr(module, name):
                self.patches.wrap(getattr(module, name), "wait", waits)

    # -- pipelines

    def _watch_pipelines(self) -> None:
        """Let `train_batch` be a step; its loss and that of `eval_batch` are means over micro-batches."""
        pipeline = sys.modules["deepspeed.runtime.pipe.engine"].PipelineEngine
        self.patches.after(pipeline, "train_batch", self._after_batch, self.breaker)
        self.fit(pipeline, "train_batch", self._begin_batch)
        self.patches.before(pipeline, "eval_batch", self._claim_loss, self.breaker)
        self.patches.after(pipeline, "eval_batch", self._after_evaluation, self.breaker)
        self.time(pipeline, "eval_batch", Phase.EVAL, "eval_batch")
        # A stage that sends its output computes no loss: the time until its backward pass is not that of one.
        sending = sys.modules["deepspeed.runtime.pipe.p2p"]
        self.patches.before(sending, "send", self._no_loss, self.breaker)

    def _begin_batch(self, *_: object, **__: object) -> None:
        self.own_steps()
        self._claim_loss()

    def _claim_loss(self, *_: object, **__: object) -> None:
        if "loss" not in self.session.logged_names:
            self._mine = True
            self.session.logged_names.add("loss")

    def ended(self) -> None:
        """Leave losses to the other hooks again."""
        if self._mine:
            self._mine = False
            self.session.logged_names.discard("loss")

    def _after_batch(self, loss: Any, *_: object, **__: object) -> None:
        if self._mine:
            self.report({"loss": loss})
        self._after_step()

    def _after_evaluation(self, result: Any, *_: object, **__: object) -> None:
        if self._mine:
            self.report({"loss": result[0] if isinstance(result, tuple) else result}, EVAL)
        self.ended()

    def _no_loss(self, *_: object, **__: object) -> None:
        self._adapter.states.current.forward_end = 0


def _size_saved(args: tuple[Any, ...], kwargs: Any) -> float:
    """Return the bytes in the folder of the checkpoint that was saved, with those of all ranks so far."""
    named = dict(zip(("engine", "save_dir", "tag"), args, strict=False)) | dict(kwargs)
    tag = named.get("tag") or f"global_step{named['engine'].global_steps}"
    return size_written((os.path.join(named["save_dir"], str(tag)),), {})
