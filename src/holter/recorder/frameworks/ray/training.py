"""Records workers of Ray Train: their ranks, what they report, checkpoints, and how they fail.

The adapters of the frameworks that train in the workers record the steps.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from holter.recorder import failure
from holter.recorder.frameworks._trainer import EVAL, TRAIN, Trainer
from holter.recorder.frameworks.ray import trials
from holter.recorder.patches import hide, passed_over
from holter.recorder.steps import TRAINERS
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

_GROUP = "ray.train.v2._internal.execution.worker_group.thread_runner"
_OF_EVALUATION = ("eval_", "test_", "val_", "valid_", "validation_")
_REPORT = "ray.train.report"
_PARTS = (
    ("_sync_checkpoint_dir_name_across_ranks", Phase.COMMUNICATION, "wait in ray.train.report"),
    ("_wait_then_report", Phase.ANNOTATION, "ray.train.report, waiting for Ray's controller"),
)
"""What `report` calls: to wait for the other ranks, and to wait until the report is fetched."""


def attach(session: Session) -> Callable[[], None]:
    """Record workers of this process; return a function that removes every hook."""
    worker = _Worker(session)
    worker.attach(sys.modules["ray.train.v2._internal.execution.context"].TrainContext)
    return worker.patches.undo


class _Worker(Trainer):
    def __init__(self, session: Session) -> None:
        super().__init__(session, "ray.train")

    def attach(self, context: Any) -> None:
        """Hook the class that each worker makes one object of."""
        after = self.patches.after
        after(context, "__post_init__", self._begin, self.breaker)
        self.patches.before(context, "report", self._reported_numbers, self.breaker)
        self.time(context, "report", Phase.ANNOTATION, _reports)
        self.time(context, "report", Phase.CHECKPOINT, _saves)
        for method, phase, name in _PARTS:
            self.time(context, method, phase, name)
        self.time(context, "_upload_checkpoint", Phase.CHECKPOINT, self._upload)
        runner = getattr(sys.modules.get(_GROUP), "ThreadRunner", None)
        if runner is not None:
            self.patches.wrap(runner, "run", self._running)

    def _begin(self, result: object, context: Any, *_: object, **__: object) -> None:
        """Tell this worker's rank, unless another training is recorded."""
        place = context.distributed_context
        if not trials.enter(self.session, trials.RUN, str(context.train_run_context.run_id)):
            return
        self.session.journal(
            "rank",
            {
                "rank": place.world_rank,
                "local_rank": place.local_rank,
                "world_size": place.world_size,
                "run": str(context.train_run_context.run_id),
            },
        )

    def _running(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the function that runs the training in a thread, and passes its exception on."""

        def run(runner: Any, target: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
            return original(runner, self._noting(target), *args, **kwargs)

        return run

    def _noting(self, target: Callable[[], Any]) -> Callable[[], Any]:
        def noting() -> Any:
            try:
                return target()
            except BaseException as error:
                hide(error)
                failure.note(self.session, error)
                raise
            finally:
                self.session.end()  # Ray kills its workers, so that they do not note their end

        return functools.wraps(target)(passed_over(noting))

    # -- reports

    def _upload(
        self, context: Any, folder: Any, metrics: Any = None, checkpoint: Any = None, *_: object, **__: object
    ) -> str:
        """Name an upload in the background; another one is part of its report."""
        spans = self.session.local.thread_spool.open_spans()
        inside = any(code & 255 == Phase.CHECKPOINT for _, code in spans)
        return "" if inside or checkpoint is None else "upload of ray.train.report"

    def _reported_numbers(self, context: Any, metrics: Any = None, *_: object, **__: object) -> None:
        """Record what the script reports, unless a trainer in the worker has logged it already."""
        if not isinstance(metrics, dict) or self.session.step_owner in TRAINERS:
            return
        at = max(self.session.step - 1, 0)
        for mode in (TRAIN, EVAL):
            found = {
                _named(name, self.session): value
                for name, value in metrics.items()
                if isinstance(name, str) and name.startswith(_OF_EVALUATION) is (mode == EVAL)
            }
            self.report(found, mode, at)


def _saves(context: Any, metrics: Any = None, checkpoint: Any = None, *_: object, **__: object) -> str:
    return "" if checkpoint is None else _REPORT


def _reports(context: Any, metrics: Any = None, checkpoint: Any = None, *_: object, **__: object) -> str:
    return _REPORT if checkpoint is None else ""


def _named(name: str, session: Session) -> str:
    """Return another name for the one that the loss of each step has."""
    return "reported_loss" if name == "loss" and session.torch_parts is not None else name
