"""smdebug's `Tensor`: one tensor, asked by mode and by the mode's own count of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from holter.compat.smdebug.core.modes import ModeKeys, StepState
from holter.compat.smdebug.exceptions import (
    InvalidWorker,
    ShapeUnavailableForStep,
    SMDebugNotImplementedError,
    SMDebugValueError,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailableForStep,
)
from holter.tensors import Tensor as Read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from holter.tensors import Source

T = TypeVar("T")

REDUCTIONS = ("min", "max", "mean", "std", "variance", "sum", "prod")
NORMS = ("l1", "l2")


class Tensor:
    """One tensor of a trial. Steps are counted by `mode`; a worker is called `worker_<rank>`."""

    def __init__(self, trial: object, source: Source, name: str) -> None:
        self.trial = trial
        self.name = self.original_name = name
        self._source = source
        self._read = Read(source, name)

    def __repr__(self) -> str:
        return f"Tensor({self.name!r})"

    def steps(self, mode: ModeKeys = ModeKeys.GLOBAL, show_incomplete_steps: bool = False) -> list[int]:
        """Return the steps at which it was saved: complete ones, or all."""
        there = self._read.steps(mode.label, incomplete=show_incomplete_steps)
        return own_steps(self._source, there, mode)

    def prev_steps(self, step: int, n: int | None = None, mode: ModeKeys = ModeKeys.GLOBAL) -> list[int]:
        """Return the last `n` steps up to and with `step` at which it was saved; all when n is None or 0."""
        before = [s for s in self.steps(mode) if s <= step]
        return before[-n:] if n else before

    def workers(self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[str]:
        """Return who saved it at a step; raises `TensorUnavailableForStep` when nobody did."""
        try:
            ranks = self._read.ranks_at(self._global(step_num, mode), mode.label)
        except (StepUnavailable, StepNotYetAvailable) as error:
            raise TensorUnavailableForStep(self.name, step_num, mode.name) from error
        return [worker(rank) for rank in ranks]

    def value(
        self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None
    ) -> NDArray[Any]:
        """Return its elements at a step.

        Raises:
            TensorUnavailableForStep: It will never be there at this step; `has_reductions` says whether
                reductions of it are.
            StepUnavailable: Nothing was saved at this step.
            StepNotYetAvailable: It may still come.
            InvalidWorker: This worker did not save it.
        """
        return self._ask(lambda step, rank: self._read.value(step, mode.label, rank), step_num, mode, worker)

    def values(self, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None) -> dict[int, NDArray[Any]]:
        """Return its elements at every complete step of the mode that has them."""
        return self._each(self.value, mode, worker)

    def reduction_value(
        self,
        step_num: int,
        reduction_name: str,
        mode: ModeKeys = ModeKeys.GLOBAL,
        worker: str | None = None,
        abs: bool = False,
    ) -> np.float64:
        """Return a reduction at a step: the one saved, else computed of the elements.

        Raises:
            SMDebugValueError: There is no such reduction.
            TensorUnavailableForStep: It cannot be known from what was saved.
        """
        valid = (*REDUCTIONS, *NORMS, "median")
        if reduction_name not in valid:
            raise SMDebugValueError(f"no reduction {reduction_name!r}; only one of {', '.join(valid)}")
        name = f"abs_{reduction_name}" if abs else reduction_name
        found = self._ask(
            lambda step, rank: self._read.reduction(name, step, mode.label, rank), step_num, mode, worker
        )
        return np.float64(found)

    def reduction_values(
        self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None
    ) -> dict[tuple[str, bool], np.float64]:
        """Return the reductions that were saved at a step, by name and whether of absolute values."""
        known = self._ask(
            lambda step, rank: self._read.reductions(step, mode.label, rank), step_num, mode, worker
        )
        return {
            (name, absolute): np.float64(known[key])
            for name in (*REDUCTIONS, *NORMS)
            for absolute in (False, True)
            if (key := f"abs_{name}" if absolute else name) in known
        }

    def shape(
        self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None
    ) -> tuple[int, ...]:
        """Return its sizes at a step; raises `ShapeUnavailableForStep` when they were not saved."""
        return self._ask(lambda step, rank: self._read.shape(step, mode.label, rank), step_num, mode, worker)

    def shapes(
        self, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None
    ) -> dict[int, tuple[int, ...]]:
        """Return its sizes at every complete step of the mode that has them."""
        return self._each(self.shape, mode, worker)

    def step(self, *_: Any, **__: Any) -> NoReturn:
        """Raise: smdebug removed it."""
        raise SMDebugNotImplementedError("Tensor.step is no more; ask for value, reduction_value or shape")

    def _each(
        self, ask: Callable[[int, ModeKeys, str | None], T], mode: ModeKeys, worker: str | None
    ) -> dict[int, T]:
        found = {}
        for step in self.steps(mode):
            try:
                found[step] = ask(step, mode, worker)
            except (TensorUnavailableForStep, ShapeUnavailableForStep, InvalidWorker):
                continue
        return found

    def _ask(self, ask: Callable[[int, int | None], T], step: int, mode: ModeKeys, worker: str | None) -> T:
        return ask(self._global(step, mode), None if worker is None else rank_of(worker))

    def _global(self, step: int, mode: ModeKeys) -> int:
        counted = self._source.counted(mode.label)
        found = step if counted is None else counted.get(step)
        if found is not None:
            return found
        state = self._source.state(step, mode.label, own=True)
        if state is StepState.NOT_YET_AVAILABLE:
            raise StepNotYetAvailable(step, mode.name)
        raise StepUnavailable(step, mode.name)


def own_steps(source: Source, steps: Iterable[int], mode: ModeKeys) -> list[int]:
    """Return global steps as the mode counts them."""
    counted = source.counted(mode.label)
    if counted is None:
        return sorted(steps)
    own = {step: count for count, step in counted.items()}
    return sorted(own[step] for step in steps if step in own)


def worker(rank: int) -> str:
    """Return what smdebug calls a rank."""
    return f"worker_{rank}"


def rank_of(worker: str) -> int:
    """Return the rank of a worker; raises `InvalidWorker` for an unknown one."""
    prefix, _, number = worker.rpartition("_")
    if prefix != "worker" or not number.isdecimal():
        raise InvalidWorker(worker)
    return int(number)
