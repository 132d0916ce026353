"""Records the Lightning Trainer: steps, epochs, evaluations, callbacks, loggers and logged numbers.

The PyTorch adapter records the parts of a step. A step ends with the batch in which an optimizer has stepped,
after its callbacks and loggers; a validation that follows it belongs to the next step.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.frameworks import _plans
from holter.recorder.frameworks._trainer import EVAL, TRAIN, Trainer
from holter.recorder.frameworks.spans import end_open
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.recorder.session import Session

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
_UNCHECKED = "loss of the sanity check"
"""A name that keeps the losses of the sanity check from being recorded as those of an evaluation."""


def attach(session: Session) -> Callable[[], None]:
    """Record trainers of both packages, each once its modules are loaded."""
    trainer = _Lightning(session)
    for package in PACKAGES:
        imports.when_imported(package, trainer.attach)
    return trainer.patches.undo


def _read_plan(loop: Any) -> tuple[str, float, float]:
    trainer = loop.trainer
    return "lightning.Trainer", trainer.estimated_stepping_batches, trainer.global_step


class _Lightning(Trainer):
    def __init__(self, session: Session) -> None:
        super().__init__(session, "lightning.Trainer")
        self._counted = 0
        """Optimizer steps that Lightning had counted at the end of the last step."""
        self._evaluating = 0
        """Code of the open span of an evaluation."""
        self._trainer: Callable[[], Any] = lambda: None
        self._mine: set[str] = set()
        """Names that keep losses of evaluations from being recorded a second time."""

    def attach(self, package: str) -> None:
        """Hook the classes of a package that has been loaded."""
        try:
            self._attach(package)
        except Exception as error:
            self.breaker.fault(error)

    def _attach(self, package: str) -> None:
        modules = {name: sys.modules[f"{package}.{name}"] for name in _MODULES}
        trainer = modules["trainer.trainer"].Trainer
        fit, epoch = (
            modules["loops.fit_loop"]._FitLoop,
            modules["loops.training_epoch_loop"]._TrainingEpochLoop,
        )
        evaluation = modules["loops.evaluation_loop"]._EvaluationLoop
        connector = modules["trainer.connectors.logger_connector.logger_connector"]._LoggerConnector
        callback, module = modules["callbacks.callback"].Callback, modules["core.module"].LightningModule
        data = modules["core.datamodule"].LightningDataModule
        hooks = {base: [one for one in dir(base) if one.startswith("on_")] for base in (callback, module)}
        more = ("setup", "prepare_data", "teardown")

        def watch(trainer: Any, model: Any, *_: object, **__: object) -> None:
            for one in trainer.callbacks:
                self.calls.watch(one, "callback", (*hooks[callback], *more), callback)
            self._trainer = weakref.ref(trainer)
            for one in trainer.loggers:
                self.calls.watch(one, "logger", ("log_metrics",), heard=self._heard)
                self.calls.watch(one, "logger file of", ("save",))
            self.calls.watch(model, "hook", (*hooks[module], *more), module)
            self.calls.watch(model, "call of", ("log",))
            if trainer.datamodule is not None:
                self.calls.watch(trainer.datamodule, "hook", more, data)

        after, before = self.patches.after, self.patches.before
        begins = [(fit.__module__, "_FitLoop", "on_run_start")]
        self.patches.later(_plans.watch(self.session, begins, _read_plan))
        before(trainer, "_run", watch, self.breaker)
        self.fit(fit, "run", self._begin)
        # A model may have brought callbacks since.
        before(fit, "run", lambda loop: watch(loop.trainer, loop.trainer.lightning_module), self.breaker)
        before(epoch, "run", self._begin_epoch, self.breaker)
        after(epoch, "advance", self._after_batch, self.breaker)
        self.time(evaluation, "run", Phase.ANNOTATION, self._sanity_check)
        self.time(evaluation, "run", Phase.EVAL, self._validation, ends_early=True)
        before(evaluation, "_on_evaluation_end", self._end_evaluation, self.breaker)
        after(connector, "log_metrics", self._log, self.breaker)
        for method in ("update_eval_epoch_metrics", "on_epoch_end"):
            after(connector, method, self._log_epoch, self.breaker)

    # -- steps and epochs

    def _begin(self, loop: Any) -> None:
        self.own_steps()
        self.begin_step()
        self._counted = loop.epoch_loop.global_step

    def ended(self) -> None:
        """Leave the losses of evaluations to the other hooks again."""
        self.session.logged_names.difference_update(self._mine, (_UNCHECKED,))
        self._mine.clear()

    def _begin_epoch(self, loop: Any, *_: object, **__: object) -> None:
        self.report({"epoch": loop.trainer.current_epoch})

    def _after_batch(self, result: object, loop: Any, *_: object, **__: object) -> None:
        """End the step if an optimizer has stepped in this batch: one of Lightning, or one that it wraps."""
        stepped = loop.global_step
        if stepped != self._counted or self.session.worked:
            self._counted = stepped
            self.end_step()

    # -- evaluations

    def _sanity_check(self, loop: Any) -> str:
        if not loop.trainer.sanity_checking:
            return ""
        self.session.logged_names.add(_UNCHECKED)
        return "sanity check"

    def _validation(self, loop: Any) -> str:
        if loop.trainer.sanity_checking or not self.owns:
            return ""
        # The sanity check has shown which losses a validation reports. These names say so, and do not concern
        # a loss of the training that has the same name.
        logged = {item.meta.name for item in (loop._results or {}).values()}
        self._mine |= {f"{name} of a validation" for name in logged if "loss" in name}
        self.session.logged_names.update(self._mine)
        self._evaluating = self.session.name("validation") << 8 | int(Phase.EVAL)
        return "validation"

    def _end_evaluation(self, loop: Any, *_: object, **__: object) -> None:
        """End the span before the callbacks at the end of a validation, which write checkpoints."""
        self.session.logged_names.discard(_UNCHECKED)
        if self._evaluating:
            end_open(self.session, self._evaluating, EVAL)
            self._evaluating = 0

    # -- numbers

    def _log(
        self, result: object, connector: Any, metrics: Mapping[str, Any], *_: object, **__: object
    ) -> None:
        self._numbers(connector.trainer, metrics)

    def _heard(self, logger: Any, metrics: Any = None, *_: object, **__: object) -> None:
        """Record what reaches a logger in another way, as from callbacks."""
        trainer = self._trainer()
        if trainer is not None and isinstance(metrics, dict):
            self._numbers(trainer, metrics)

    def _log_epoch(self, result: object, connector: Any, *_: object, **__: object) -> None:
        """Record what callbacks can monitor at the end of an epoch or of an evaluation."""
        found = connector._callback_metrics
        for item in list((connector.trainer._results or {}).values()):
            if item.meta.on_epoch and not item.has_reset:
                name = item.meta.forked_name(False)
                keys = (key for key in found if key == name or key.startswith(f"{name}/dataloader_idx_"))
                self._numbers(connector.trainer, {key: found[key] for key in keys})

    def _numbers(self, trainer: Any, metrics: Mapping[str, Any]) -> None:
        if trainer.sanity_checking:
            return
        if trainer.training:
            metrics = _trained(metrics, trainer._logger_connector._first_loop_iter is None)
        self.report(metrics, TRAIN if trainer.training else EVAL)


_MODULES = (
    "trainer.trainer",
    "trainer.connectors.logger_connector.logger_connector",
    "loops.fit_loop",
    "loops.training_epoch_loop",
    "loops.evaluation_loop",
    "callbacks.callback",
    "core.module",
    "core.datamodule",
)


def _trained(metrics: Mapping[str, Any], at_end: bool) -> dict[str, Any]:
    """Return numbers of the training without `loss`, which each step has; its mean has another name."""
    named = {name: value for name, value in metrics.items() if name != "loss"}
    if at_end and "loss" in metrics:
        named["loss_epoch"] = metrics["loss"]
    return named
