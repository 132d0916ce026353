"""Finds jumps of a loss and whether it recovers, from one value per step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from holter.rules.engine.history import History, periodic
from holter.rules.patterns.logged import Curve

WARMUP_STEPS = 10
RECENT_STEPS = 1000
"""The steps within which spikes are counted together."""
_SETTLE_STEPS = 100
_TAIL = 20
_QUIET = 10
_NEGLIGIBLE = 1e-4
"""A smaller rise, as a share of the first loss, is ignored."""


class Jump(NamedTuple):
    """An event of a loss; `step` is when it was certain, and `evidence` holds when it began."""

    what: Literal["spike", "unstable", "divergence", "nonfinite"]
    step: int
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LossWatch:
    """Finds jumps; the fields are the limits."""

    z: float = 6.0
    rise: float = 0.10
    """As a share of the median."""
    start_steps: int = 100
    history: int = 30

    def jumps(self, loss: Curve, again: list[int], state: dict[str, Any]) -> Iterator[Jump]:
        """Judge the next values of a loss.

        Args:
            loss: The values.
            again: Steps at which the learning rate restarted; earlier values do not count as usual.
            state: A dictionary in the rule's state that nothing else uses.
        """
        state.setdefault("history", [])
        if state.setdefault("attempt", loss.attempt) != loss.attempt:
            _start_over(state, loss.steps[0])
            state.update(attempt=loss.attempt, again=[])
        usual = History(state["history"])
        counts = History(state.setdefault("counts", []))
        waiting = [*state.get("again", []), *again]
        for step, value, count in zip(loss.steps, loss.values, loss.rows, strict=True):
            if state.get("first") is None:
                state["first"] = state["start"] = step
            while waiting and waiting[0] <= step:
                _start_over(state, waiting.pop(0))
                usual.clear()
            # A step with more rows than usual also holds other values: an evaluation under the same name.
            strange = False
            if not counts.all_are(count):
                strange = len(counts) >= 10 and count > 1.5 * counts.median
                counts.add(count)
            if step - state["start"] >= WARMUP_STEPS and not strange:
                yield from self._judge(step, value, usual, state)
        state["again"] = waiting

    def _judge(self, step: int, value: float, usual: History, state: dict[str, Any]) -> Iterator[Jump]:
        if not math.isfinite(value):
            if not state.get("nonfinite"):
                state["nonfinite"] = True
                yield Jump("nonfinite", step, {"step": step, "value": str(value)})
            return
        if state.get("began") is None and len(usual) >= self.history:
            state["began"] = usual.median
        tail = state.setdefault("tail", [])
        tail.append(value)
        del tail[:-_TAIL]
        grade = self._grade(value, usual, state) if step - state["first"] >= self.start_steps else 0
        episode: dict[str, Any] | None = state.get("episode")
        if not grade:
            usual.add(value)
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
            yield from self._spike(step, value, usual, state, episode)
        elif episode is not None and step - episode["step"] >= _SETTLE_STEPS:
            state["episode"] = None
            now = float(np.median(tail))
            if now > episode["limit"]:
                usual.clear()  # the new level is usual from now on
                yield Jump("divergence", step, {**_evidence(episode), "median_of_last_20": now})

    def _spike(
        self, step: int, value: float, usual: History, state: dict[str, Any], open_: dict[str, Any] | None
    ) -> Iterator[Jump]:
        middle, mad = usual.median, usual.mad
        began = state["run_began"]
        episode = {
            "step": began,
            "value": value,
            "median": middle,
            "mad": mad,
            "limit": open_["limit"] if open_ else middle + max(2 * mad, 0.05 * abs(middle)),
            "peak": value,
            "quiet": 0,
        }
        state["episode"] = episode
        spikes = state.setdefault("spikes", [])
        spikes.append(began)
        spikes[:] = [s for s in spikes if s > step - RECENT_STEPS]
        evidence = {**_evidence(episode), "z": (value - middle) / max(mad, 1e-8), "spikes": list(spikes)}
        yield Jump("spike", step, evidence)
        if len(spikes) >= 3 and not periodic(spikes):
            yield Jump("unstable", step, evidence)

    def _grade(self, value: float, usual: History, state: dict[str, Any]) -> int:
        """Return 0 for a usual value, 1 for an outlier, 2 for an outlier that is certain after one step."""
        if len(usual) < self.history:
            return 0
        middle = usual.median
        rise = value - middle
        if rise <= self.rise * abs(middle) or rise <= _NEGLIGIBLE * abs(state.get("began") or 0.0):
            return 0
        z = rise / max(usual.mad, 1e-3 * abs(middle), 1e-8)
        # Losses of small batches have long tails, so positive losses must be outliers in logarithms too.
        if z <= self.z or (usual.least > 0 and usual.log_z(value) <= self.z):
            return 0
        one_sign = usual.least > 0 or usual.most < 0
        return 2 if z > self.z + 4 and rise > abs(middle) and one_sign else 1


def _start_over(state: dict[str, Any], step: int) -> None:
    state["history"].clear()
    state.update(start=step, run=0, episode=None)


def _evidence(episode: dict[str, Any]) -> dict[str, Any]:
    return {name: episode[name] for name in ("step", "value", "median", "mad", "peak")}
