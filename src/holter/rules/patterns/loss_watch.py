"""Finds jumps of a loss and whether it recovers, from one value per step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from holter.rules.engine.history import History, periodic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.rules import State
    from holter.rules.patterns.logged import Curve

WARMUP_STEPS = 10
RECENT_STEPS = 1000
"""The steps within which spikes are counted together."""
_RECOVERY_STEPS = 100
_TAIL = 20
_QUIET = 10
_NEGLIGIBLE = 1e-3
"""A smaller rise, as a share of what the loss has fallen by, is ignored.

Moré and Wild (Benchmarking derivative-free optimization algorithms, 2009) call that converged.
"""


class Jump(NamedTuple):
    """An event of a loss; `step` is when it was certain, and `evidence` holds when it began."""

    what: Literal["spike", "unstable", "divergence", "nonfinite"]
    step: int
    evidence: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LossWatch:
    """Finds jumps of one loss."""

    state: State
    """Its memory between windows: a dictionary in the rule's state that nothing else uses."""
    z: float = 6.0
    rise: float = 0.10
    """As a share of the median."""
    start_steps: int = 100
    needed: int = 30
    """The number of losses that the median needs."""
    usual: History = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "usual", History(self.state.setdefault("history", [])))

    def jumps(self, loss: Curve, restarts: list[int]) -> Iterator[Jump]:
        """Judge the next values of the loss.

        Args:
            loss: The values.
            restarts: Steps at which the learning rate restarted; earlier values do not count as usual.
        """
        state = self.state
        if state.setdefault("attempt", loss.attempt) != loss.attempt:
            self._start_over(loss.steps[0])
            state.update(attempt=loss.attempt, again=[])
        counts = History(state.setdefault("counts", []))
        waiting = [*state.get("again", []), *restarts]
        for step, value, count in zip(loss.steps, loss.values, loss.rows, strict=True):
            if state.get("first") is None:
                state["first"] = state["start"] = step
            while waiting and waiting[0] <= step:
                self._start_over(waiting.pop(0))
            # A step with more rows than usual also holds other values: an evaluation under the same name.
            strange = False
            if not counts.all_are(count):
                strange = len(counts) >= 10 and count > 1.5 * counts.median
                counts.add(count)
            if math.isfinite(value) and not strange:
                self._measure(value)
            if step - state["start"] >= WARMUP_STEPS and not strange:
                yield from self._judge(step, value)
        state["again"] = waiting

    def _measure(self, value: float) -> None:
        """Keep the first losses, whose median one broken batch does not move, and the least one."""
        state = self.state
        if len(first := state.setdefault("first_losses", [])) < WARMUP_STEPS:
            first.append(value)
        state["least"] = min(state.get("least", value), value)

    def _judge(self, step: int, value: float) -> Iterator[Jump]:
        state = self.state
        if not math.isfinite(value):
            if not state.get("nonfinite"):
                state["nonfinite"] = True
                yield Jump("nonfinite", step, {"step": step, "value": str(value)})
            return
        tail = state.setdefault("tail", [])
        tail.append(value)
        del tail[:-_TAIL]
        grade = self._grade(value) if step - state["first"] >= self.start_steps else 0
        episode = state.get("episode")
        if not grade:
            self.usual.add(value)
            state["run"] = 0
        else:
            if not state.get("run"):
                fresh = episode is None or episode["quiet"] >= _QUIET
                state.update(run=0, run_began=step, fresh=fresh)
            state["run"] += 1
        if episode is not None:
            episode["quiet"] = 0 if grade else episode["quiet"] + 1
            episode["peak"] = max(episode["peak"], value)
        if grade and state["fresh"] and (grade == 2 or state["run"] >= 2):
            state["fresh"] = False
            yield from self._spike(step, value)
        elif episode is not None and step - episode["step"] >= _RECOVERY_STEPS:
            state["episode"] = None
            now = float(np.median(tail))
            if now > episode["limit"]:
                self.usual.clear()  # the new level is usual from now on
                yield Jump("divergence", step, {**_evidence(episode), "median_of_last_20": now})

    def _spike(self, step: int, value: float) -> Iterator[Jump]:
        state, middle, mad = self.state, self.usual.median, self.usual.mad
        began, before = state["run_began"], state.get("episode")
        limit = before["limit"] if before else middle + max(2 * mad, 0.05 * abs(middle))
        episode = {"step": began, "value": value, "median": middle, "mad": mad, "peak": value}
        state["episode"] = {**episode, "limit": limit, "quiet": 0}
        spikes = [s for s in state.get("spikes", []) if s > step - RECENT_STEPS]
        state["spikes"] = [*spikes, began]
        evidence = {**episode, "z": (value - middle) / max(mad, 1e-8), "spikes": [*spikes, began]}
        yield Jump("spike", step, evidence)
        if len(spikes) >= 2 and not periodic([*spikes, began]):
            yield Jump("unstable", step, evidence)

    def _grade(self, value: float) -> int:
        """Return 0 for a usual value, 1 for an outlier, 2 for an outlier that is certain after one step."""
        usual = self.usual
        if len(usual) < self.needed:
            return 0
        middle = usual.median
        rise = value - middle
        if rise <= self.rise * abs(middle):
            return 0
        if rise <= _NEGLIGIBLE * (float(np.median(self.state["first_losses"])) - self.state["least"]):
            return 0
        z = rise / max(usual.mad, 1e-3 * abs(middle), 1e-8)
        # Losses of small batches have long tails, so positive losses must be outliers in logarithms too.
        if z <= self.z or (usual.least > 0 and usual.log_z(value) <= self.z):
            return 0
        one_sign = usual.least > 0 or usual.most < 0
        return 2 if z > self.z + 4 and rise > abs(middle) and one_sign else 1

    def _start_over(self, step: int) -> None:
        self.usual.clear()
        self.state.update(start=step, run=0, episode=None)


def _evidence(episode: Mapping[str, float]) -> dict[str, float]:
    return {name: episode[name] for name in ("step", "value", "median", "mad", "peak")}
