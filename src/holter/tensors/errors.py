"""What can be wrong when a tensor is asked for: never there, not at this step, not yet, not in this form."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FEW = 6


class TensorError(Exception):
    """Any of these."""


class InvalidCollectionConfiguration(TensorError):
    """A collection that selects nothing: neither patterns nor names."""

    def __init__(self, collection: str) -> None:
        self.collection = collection
        super().__init__(f"collection {collection!r} has neither patterns nor names of tensors")


class TensorUnavailable(TensorError, LookupError):
    """No tensor of this name was saved so far; in a running job it may still come."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        names = list(known)
        there = f"{len(names)} tensors were saved" if names else "no tensor was saved yet"
        super().__init__(f"no tensor {name!r} so far{near(name, names)}; {there}")


class TensorUnavailableForStep(TensorError):
    """The tensor will never be there at this step in this form."""

    def __init__(
        self, name: str, step: int, mode: str | None = None, has_reductions: bool = False, hint: str = ""
    ) -> None:
        self.name, self.step, self.mode, self.has_reductions = name, step, mode, has_reductions
        if has_reductions:
            hint = hint or "only statistics of it were saved: ask for a reduction"
        super().__init__(f"tensor {name!r} was not saved at step {_at(step, mode)}{'; ' * bool(hint)}{hint}")


class ShapeUnavailableForStep(TensorError):
    """Neither the shape nor the value of the tensor was saved at this step."""

    def __init__(self, name: str, step: int, mode: str | None = None) -> None:
        self.name, self.step, self.mode = name, step, mode
        super().__init__(
            f"the shape of tensor {name!r} was not saved at step {_at(step, mode)}, nor its value"
        )


class StepUnavailable(TensorError):
    """Nothing was saved at this step, nor will be: the schedule skipped it, or the job ended before."""

    def __init__(self, step: int, mode: str | None = None, hint: str = "") -> None:
        self.step, self.mode = step, mode
        super().__init__(f"nothing was saved at step {_at(step, mode)}{'; ' * bool(hint)}{hint}")


class StepNotYetAvailable(TensorError):
    """The step may still come."""

    def __init__(self, step: int, mode: str | None = None, hint: str = "") -> None:
        self.step, self.mode = step, mode
        super().__init__(f"step {_at(step, mode)} is not complete yet{'; ' * bool(hint)}{hint}")


class NoMoreData(TensorError):
    """The job has ended, and the step lies beyond the last one."""

    def __init__(self, step: int, mode: str | None = None, last_step: int | None = None) -> None:
        self.step, self.mode, self.last_step = step, mode, last_step
        super().__init__(f"the job has ended before step {_at(step, mode)}; its last step is {last_step}")


class MissingCollectionFiles(TensorError):
    """The job has ended, and what it says of its collections is missing or incomplete."""


class IndexReaderException(TensorError):
    """A file is damaged, or does not hold saved tensors."""

    def __init__(self, message: str, file: str = "", offset: int | None = None) -> None:
        self.file, self.offset = file, offset
        super().__init__(message)


class InvalidWorker(TensorError, LookupError):
    """This rank saved nothing of the tensor at the step."""

    def __init__(self, worker: object, there: Sequence[object] = ()) -> None:
        self.worker = worker
        listed = ", ".join(map(str, there))
        super().__init__(f"{worker!r} did not save it{f'; these did: {listed}' * bool(there)}")


class RuleEvaluationConditionMet(TensorError):
    """A rule found what it looks for."""

    def __init__(self, rule: str, step: int, end_of_rule: bool = False) -> None:
        self.rule, self.step, self.end_of_rule = rule, step, end_of_rule
        super().__init__(f"rule {rule} met its condition at step {step}")


class InsufficientInformationForRuleInvocation(TensorError):
    """A rule cannot judge with what was saved."""

    def __init__(self, rule: str, message: str) -> None:
        self.rule = rule
        super().__init__(f"rule {rule} cannot judge: {message}")


def near(name: str, known: Iterable[str]) -> str:
    """Say which known name is nearest: ` (did you mean 'x'?)`, or nothing."""
    found = difflib.get_close_matches(name, list(known)[:20_000], n=1, cutoff=0.5)
    return f" (did you mean {found[0]!r}?)" if found else ""


def some(steps: Sequence[object]) -> str:
    """List a few steps or names in words."""
    if not steps:
        return "none"
    if len(steps) <= _FEW:
        return ", ".join(map(str, steps))
    return f"{', '.join(map(str, steps[:3]))}, ... {steps[-1]} ({len(steps)} in all)"


def _at(step: int, mode: str | None) -> str:
    return f"{step} of mode {mode}" if mode else str(step)
