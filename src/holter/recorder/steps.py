"""Ends the steps of a process, and decides who may: an adapter, a trainer, or the script."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holter.recorder.spool import hotpath
from holter.recorder.spool.names import NO_NAME
from holter.recorder.spool.thread_spool import NAN, TRAIN, earliest
from holter.schema import record
from holter.schema.phases import ITERATOR_START, SCRIPT, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.spool.hotpath import StepCounter
    from holter.recorder.spool.threads import LocalSpool
    from holter.recorder.window import Windows
else:
    StepCounter = getattr(hotpath.compiled(), "StepCounter", hotpath.StepCounter)

TRAINERS = ("deepspeed", "keras", "lightning.Trainer", "torchtitan", "transformers.Trainer")
"""Owners of steps that run the loop of other frameworks."""
_LOOP = {int(Phase.DATA_LOADING), int(Phase.FORWARD), int(Phase.BACKWARD), int(Phase.OPTIMIZER)}
_STEP = int(Phase.STEP)
_APART_NS = 1_000_000_000
"""After this time without a batch, an iterator was made for later: what lies between is start-up."""


class Steps(StepCounter):
    """The part of a session that ends steps."""

    local: LocalSpool
    windows: Windows

    def __init__(self) -> None:
        super().__init__()
        self.step_owner = ""
        """Who counts the steps besides the usual adapter; see `claim_steps`."""
        self.framework_steps = 0
        """The number of the step after the last one that a framework reported."""
        self.release: Callable[[], None] | None = None
        """Ends the steps of a framework that reports no end."""
        self.stride = 1
        """Steps of one step boundary; see `step_by`."""
        self.worked = False
        """Whether an adapter would have ended the step that its owner will end."""
        self.before_end: Callable[[], None] | None = None
        """What the adapter does before that."""

    def name(self, text: str) -> int:
        """Return the id of a name."""
        raise NotImplementedError

    def fault(self, where: str, error: BaseException) -> None:
        """Count a fault by place."""
        raise NotImplementedError

    def journal(self, kind: str, fact: object) -> None:
        """Note a rare fact."""
        raise NotImplementedError

    def boundary(
        self, now: int | None = None, mode: int = TRAIN, *, manual: bool = False, steps: int = 1
    ) -> None:
        """End the current step at `now` (monotonic ns) on the calling thread, and begin the next one.

        The first step begins at the first data loading, forward, backward or optimizer of this thread.
        `steps` is above 1 where one call runs several steps: the boundary then ends that many.
        """
        try:
            if not manual and self.release is not None:
                self.end_open_round()
            if self.manual_steps and not manual:
                return
            end = time.perf_counter_ns() if now is None else now
            if manual and self.worked and self.before_end is not None:
                self.before_end()
            self.worked = False
            thread_spool = self.local.thread_spool
            begin = self.since or earliest(
                thread_spool, _LOOP, end, apart=self.name(ITERATOR_START), gap=_APART_NS
            )
            if steps == 1:
                thread_spool.add(_STEP, NO_NAME, begin, end - begin, NAN, None, mode)
            else:
                steps = min(steps, record.MAX_STEPS_AT_ONCE)
                thread_spool.add(_STEP, NO_NAME, begin, end - begin, steps, None, mode)
                thread_spool.cost()  # the step at which it is published may be among those in between
                self.step += steps - 1
            self.next_step(end)
        except Exception as error:
            self.fault("boundary", error)

    def claim_steps(self, owner: str) -> bool:
        """Let `owner` alone end steps, with `boundary(manual=True)`; False if another owner keeps them.

        The script stands above a trainer, such as Keras, and a trainer above the frameworks whose loop it
        runs. Among equals, the first owner keeps the steps, unless nothing of it runs.
        """
        if self.release is not None and owner != self.step_owner:
            self.end_open_round()
        if owner != self.step_owner and (not self.step_owner or _height(owner) > _height(self.step_owner)):
            self.manual_steps, self.step_owner = True, owner
            self.journal("owner", {"owner": owner})
        return self.step_owner == owner

    def release_steps(self, owner: str) -> None:
        """Let adapters end steps again, if `owner` counted them."""
        if self.step_owner == owner:
            self.manual_steps, self.step_owner = False, ""
            self.step_by(1)

    def end_open_round(self) -> None:
        """End the steps of a framework that reports no end, because another framework trains now."""
        release, self.release = self.release, None
        if release is not None:
            release()
            if not self.step_owner:
                self.journal("owner", {"owner": ""})

    def step_by(self, steps: int) -> None:
        """Expect each boundary to end so many steps, so that what is due in between begins in time."""
        if steps != self.stride:
            self.stride = max(steps, 1)
            self.windows.wake_earlier()

    def woken(self, step: int, now: int) -> None:
        """Let windows begin and end."""
        self.windows.look(step, now)

    def first_activity(self) -> None:
        """Begin the first step now, unless it has begun."""
        if not self.since:
            self.since = time.perf_counter_ns()


def _height(owner: str) -> int:
    return 2 if owner == SCRIPT else int(owner in TRAINERS)
