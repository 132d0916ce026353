"""Records the Hugging Face Trainer: steps, evaluations, callbacks and the numbers that it logs.

The PyTorch adapter records the parts of a step. The trainer fetches all batches of a step before it calls
`on_step_begin`, so a step begins where the last one ended; what follows `on_step_end` (logging, evaluation,
checkpoints) belongs to the next step.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks import _plans
from holter.recorder.frameworks._trainer import EVAL, Trainer
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

_HANDLER = ("transformers.trainer_callback", "CallbackHandler")
_OF_EVALUATION = ("eval_", "test_")


def attach(session: Session) -> Callable[[], None]:
    """Record trainers of this process; return a function that removes every hook."""
    trainer = _Transformers(session)
    trainer.patches.later(_plans.watch(session, [(*_HANDLER, "on_train_begin")], _read_plan))
    module = sys.modules["transformers.trainer"]
    if hasattr(module, "Trainer"):
        trainer.attach(module.Trainer, sys.modules[_HANDLER[0]])
    return trainer.patches.undo


def _read_plan(handler: Any, args: Any, state: Any, *more: Any, **named: Any) -> tuple[str, float, float]:
    return "transformers.Trainer", state.max_steps, state.global_step


class _Transformers(Trainer):
    def __init__(self, session: Session) -> None:
        super().__init__(session, "transformers.Trainer")
        self._losses: list[float] = []
        """Losses of the micro-batches of this step, each divided as the trainer does."""
        self._asked = False
        """Whether this training has been asked for its device."""
        self._mine: set[str] = set()
        """Names of losses that are taken from the trainer, in place of those of backward passes."""

    def attach(self, trainer: Any, callbacks: Any) -> None:
        """Hook the classes of the trainer and of its callbacks."""
        handler, base = callbacks.CallbackHandler, callbacks.TrainerCallback
        events = [name for name in dir(base) if name.startswith("on_")]

        def added(result: None, handler: Any, *_: object, **__: object) -> None:
            for one in handler.callbacks:
                self.calls.watch(one, "callback", events, base)

        after, before = self.patches.after, self.patches.before
        after(handler, "add_callback", added, self.breaker)
        self.fit(trainer, "train", lambda *_, **__: None)
        before(handler, "on_train_begin", lambda *_, **__: self.begin_step(), self.breaker)
        before(handler, "on_step_begin", lambda *_, **__: self.own_steps(), self.breaker)
        after(handler, "on_step_end", self._after_step, self.breaker)
        after(handler, "on_epoch_begin", self._after_epoch_begin, self.breaker)
        before(handler, "on_log", self._log, self.breaker)
        before(trainer, "training_step", self._before_pass, self.breaker)
        after(trainer, "training_step", self._after_pass, self.breaker)
        for function in ("evaluation_loop", "prediction_loop"):
            self.time(trainer, function, Phase.EVAL, self._evaluation)
        self.time(trainer, "_save_checkpoint", Phase.CHECKPOINT, "Trainer._save_checkpoint")

    # -- steps and losses

    def ended(self) -> None:
        """Leave losses to the other hooks again."""
        self.session.logged_names.difference_update(self._mine)
        self._mine.clear()
        self._losses.clear()
        self._asked = False

    def _claim_loss(self, name: str) -> None:
        if name not in self.session.logged_names:
            self._mine.add(name)
            self.session.logged_names.add(name)

    def _after_step(self, *_: object, **__: object) -> None:
        if self._losses:
            self.session.scalar("loss", sum(self._losses))
            self._losses.clear()
        self.end_step()

    def _after_epoch_begin(self, result: object, handler: Any, args: Any, state: Any, *_: object) -> None:
        self.report({"epoch": state.epoch or 0.0})

    def _before_pass(self, trainer: Any, *_: object, **__: object) -> None:
        """Take losses on the host from the trainer, which knows how it divides them."""
        if self.owns and not self._asked:
            self._asked = True
            if trainer.args.device.type == "cpu":
                self._claim_loss("loss")

    def _after_pass(self, loss: Any, *_: object, **__: object) -> None:
        if "loss" in self._mine and loss.numel() == 1:
            self._losses.append(loss.item())

    def _evaluation(self, *_: object, **__: object) -> str:
        if not self.owns:
            return ""
        self._claim_loss("eval_loss")
        return "evaluation"

    # -- numbers

    def _log(self, handler: Any, args: Any, state: Any, control: Any, logs: Any = None, *_: object) -> None:
        """Record numbers that the trainer logs. Each step has its own `loss`; the logged one is a mean."""
        numbers = {name: value for name, value in logs.items() if name != "loss"}
        if any(name.startswith(_OF_EVALUATION) for name in numbers):
            self.report({name: value for name, value in numbers.items() if name != "epoch"}, EVAL)
        else:
            self.report(numbers, step=max(self.session.step - 1, 0) if self.owns else None)
