"""What adapters of trainers share: the trainer owns the steps, and reports evaluations and numbers."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks._calls import Calls
from holter.recorder.frameworks.spans import timed
from holter.recorder.patches import Patches, hide
from holter.schema.phases import Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.recorder.session import Session

TRAIN, EVAL = int(Mode.TRAIN), int(Mode.EVAL)


class Trainer:
    """Records one kind of trainer. PyTorch's own hooks record the parts of its steps."""

    def __init__(self, session: Session, name: str) -> None:
        self.session, self.name = session, name
        self.breaker = session.breaker(name)
        self.patches = Patches()
        self.calls = Calls(session, self.patches, self.breaker)
        self.fits = 0
        """Trainings that run; one may run inside another."""
        self._reported: dict[str, tuple[int, int, float]] = {}
        """Step, mode and value of each number that was recorded last."""

    @property
    def owns(self) -> bool:
        """Whether this trainer ends the steps of the process now."""
        return bool(self.fits) and self.session.step_owner == self.name

    def own_steps(self) -> None:
        """End all steps from now on, unless the script does so."""
        self.session.claim_steps(self.name)

    def begin_step(self) -> None:
        """Begin the first step of a training now: what ran before belongs to no step."""
        if self.session.step_owner in ("", self.name):
            self.session.since = perf_counter_ns()

    def end_step(self) -> None:
        """End a step, if this trainer owns the steps."""
        if self.owns:
            self.session.boundary(manual=True)

    def fit(self, owner: Any, function: str, begins: Callable[..., object]) -> None:
        """Call `begins` before each call of a function that trains; let others count steps after it."""
        self.patches.wrap(owner, function, lambda original: self._fitting(original, begins))

    def _fitting(self, original: Any, begins: Callable[..., object]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self.fits += 1
            try:
                if self.breaker.on:
                    begins(*args, **kwargs)
            except Exception as error:
                self.breaker.fault(error)
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                self.fits -= 1
                if not self.fits:
                    self.session.release_steps(self.name)
                    self.ended()

        return wrapper

    def ended(self) -> None:
        """Do what a trainer needs after its training. Raises nothing."""

    def time(
        self,
        owner: Any,
        function: str,
        phase: Phase,
        name: str | Callable[..., str],
        *,
        ends_early: bool = False,
    ) -> None:
        """Record calls of `owner.function` as spans; see `timed`."""
        self.patches.wrap(
            owner,
            function,
            lambda original: timed(self.session, self.breaker, original, phase, name, ends_early=ends_early),
        )

    def report(self, numbers: Mapping[str, Any], mode: int = TRAIN, step: int | None = None) -> None:
        """Record numbers that the training itself reports, each once per step; leave the others out.

        Nothing waits for a device: a tensor on one is left out.
        """
        at = self.session.step if step is None else step
        for name, given in numbers.items():
            known = self._reported.get(name)
            if isinstance(given, bool) or not (isinstance(given, (int, float)) or _is_host_number(given)):
                continue
            value = float(given)
            if known != (at, mode, value):
                self._reported[name] = at, mode, value
                self.session.scalar(name, value, at, mode)


def _is_host_number(value: object) -> bool:
    """Whether a value is a single number in the memory of the host, such as a tensor or a NumPy scalar."""
    if getattr(value, "is_cpu", None) is True:
        return value.numel() == 1  # type: ignore[attr-defined, no-any-return]
    return getattr(value, "is_cpu", None) is None and getattr(value, "shape", None) == ()
