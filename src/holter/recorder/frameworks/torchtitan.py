"""Records torchtitan's trainer from its structured log: steps, phases, and the numbers that it reports.

The PyTorch adapter records the parts of a step. A handler of torchtitan's own logger hears where its steps
and phases begin and end; the log itself stays as it is. Without a structured log, as in versions before 0.3
or with `--debug.no-enable-structured-logging`, steps are those of any PyTorch loop.
"""

from __future__ import annotations

import logging
import sys
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks import _plans
from holter.recorder.frameworks._trainer import EVAL, TRAIN, Trainer
from holter.recorder.spool.thread_spool import NAN
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.recorder.session import Session

LOGGER = "torchtitan.structured_logger"
STATE = "torchtitan.observability.structured_logger.step_state"
PHASES = {"fetching_batch": Phase.DATA_LOADING, "eval": Phase.EVAL}
"""Phases of torchtitan that are parts of a step; the others are annotations within its parts."""
TAGGED = {"checkpoint_save": ("checkpoint_save", Phase.CHECKPOINT), "gc_collect": ("gc", Phase.ANNOTATION)}
"""Phases of each step in which torchtitan mostly does nothing → the tag of a step in which it does."""
LOSSES = {"loss_metrics/global_avg_loss": "loss", "validation_metrics/loss": "eval_loss"}
"""Losses that torchtitan reports → the names that holter gives to losses."""
_OPTIMIZER, _STEP = "optim", "step"
_BUILD = ".build"
"""The log has a phase for each module that is built."""


def attach(session: Session) -> Callable[[], None]:
    """Record trainers of this process; return a function that removes every hook."""
    trainer = _Torchtitan(session)
    metrics = sys.modules.get("torchtitan.components.metrics")
    if "torchtitan.observability.structured_logger" in sys.modules and metrics is not None:
        trainer.attach(sys.modules["torchtitan.trainer"].Trainer, metrics)
    return trainer.patches.undo


def _read_plan(trainer: Any, *_: object) -> tuple[str, float, float]:
    return "torchtitan", trainer.config.training.steps, trainer.step


class _Torchtitan(Trainer):
    def __init__(self, session: Session) -> None:
        super().__init__(session, "torchtitan")
        self._thread = 0
        """The thread that trains."""
        self._open: list[tuple[str, int]] = []
        """Phases of that thread that have begun; the codes of their spans, or when one of `TAGGED` began."""
        self._stepped = False
        self._loggers: set[type] = set()
        """Classes of loggers of metrics that are hooked."""
        self._mine: set[str] = set()
        """Names of losses that are taken from the trainer, in place of those of backward passes."""

    def attach(self, trainer: Any, metrics: Any) -> None:
        """Hear the structured log; hook the trainer and its loggers of metrics."""
        handler = _Handler(self._hear, self.breaker.fault)
        logger = logging.getLogger(LOGGER)
        logger.addHandler(handler)
        self.patches.later(lambda: logger.removeHandler(handler))
        begins = [(trainer.__module__, "Trainer", "batch_generator")]
        self.patches.later(_plans.watch(self.session, begins, _read_plan))
        self.fit(trainer, "train", self._begin)
        for method in ("log", "log_validation"):
            self.patches.before(metrics.MetricsProcessor, method, self._meet_logger, self.breaker)

    def _begin(self, *_: object) -> None:
        self._thread, self._stepped = get_ident(), False
        self._open.clear()

    def ended(self) -> None:
        """Leave losses to the other hooks again."""
        self.session.logged_names.difference_update(self._mine)
        self._mine.clear()

    # -- phases

    def _hear(self, record: Any) -> None:
        """Take one record of the structured log."""
        name = getattr(record, "log_type_name", None)
        if not self.fits or get_ident() != self._thread or not isinstance(name, str):
            return
        if name == "metric_value":
            self.report({record.event_name: record.value})
        elif record.log_type != "event":
            pass  # an instant, such as `training_start`
        elif name.endswith("_start"):
            self._begin_phase(name.removesuffix("_start"))
        elif name.endswith("_end"):
            self._end_phase(name.removesuffix("_end"))

    def _begin_phase(self, name: str) -> None:
        if name == _STEP:
            if not self.owns:
                self.own_steps()
                self.begin_step()
                self._claim_losses()
            self._stepped = False
            self._open.clear()
        elif name in TAGGED:
            self._open.append((name, perf_counter_ns()))
        elif not name.endswith(_BUILD):
            phase = PHASES.get(name, Phase.ANNOTATION)
            code = self.session.name(name) << 8 | int(phase)
            self.session.local.begin(code)
            self._open.append((name, code))

    def _end_phase(self, name: str) -> None:
        if name == _STEP:
            if self._stepped:  # else the data ran out
                self.end_step()
        elif self._open and self._open[-1][0] == name:
            _, code = self._open.pop()
            if name in TAGGED:
                tag, phase = TAGGED[name]
                if tag in self._tags():
                    self._add(phase, name, code)
            else:
                self.session.local.end_of(code, NAN, EVAL if name == "eval" else TRAIN)
                self._stepped = self._stepped or name == _OPTIMIZER

    def _add(self, phase: Phase, name: str, began: int) -> None:
        spool, took = self.session.thread_spool(), perf_counter_ns() - began
        spool.add(int(phase), self.session.name(name), began, took, NAN, None, TRAIN)

    @staticmethod
    def _tags() -> tuple[str, ...]:
        return sys.modules[STATE].get_step_tags()  # type: ignore[no-any-return]

    # -- numbers

    def _claim_losses(self) -> None:
        """Take losses from the trainer: that of a backward pass is this rank's share of the sum over all."""
        if self.owns:
            self._mine |= set(LOSSES.values()) - self.session.logged_names
            self.session.logged_names.update(self._mine)

    def _meet_logger(self, processor: Any, *_: object, **__: object) -> None:
        """Hear what reaches the logger of a processor, of whatever class it is."""
        cls = type(processor.logger)
        if cls not in self._loggers:
            self._loggers.add(cls)
            self.patches.before(cls, "log", self._log, self.breaker)

    def _log(self, logger: Any, metrics: Mapping[str, Any], *_: object, **__: object) -> None:
        """Record the numbers that torchtitan reports, each at the step that has just been trained."""
        mode = EVAL if any(name.startswith("validation_metrics/") for name in metrics) else TRAIN
        losses = {name: metrics[own] for own, name in LOSSES.items() if own in metrics}
        self.report(metrics, mode)
        self.report({name: loss for name, loss in losses.items() if name in self._mine}, mode)


class _Handler(logging.Handler):
    """Hands the records of the structured log on; nothing here can fail the training."""

    def __init__(self, hear: Callable[[Any], None], fault: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._hear, self._fault = hear, fault

    def emit(self, record: Any) -> None:
        """Hand one record on."""
        try:
            self._hear(record)
        except Exception as error:
            self._fault(error)
