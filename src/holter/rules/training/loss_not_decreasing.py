"""LossNotDecreasing: the loss does not decrease."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Issues, State, Window, parameter, rule_class
from holter.rules.patterns.losses import LossRule, Points

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


@rule_class
class LossNotDecreasing(LossRule):
    """A loss has not decreased enough within num_steps steps."""

    formula = (
        "every num_steps, with change = 100 x (before - now) / |before|: modern: change < diff_percent; "
        "classic: 0 <= change < diff_percent, or -change > increase_threshold_percent"
    )
    advice = (
        "Check the learning rate and its schedule, the order of the data, the labels, and whether trainable"
        " parameters are frozen. If the loss cannot go lower, stop."
    )
    packs = ("convergence", "sagemaker")
    also_called = ("LossNotDecreasingRule",)

    use_losses_collection: bool = parameter(True)
    """Judge the scalars that are named like a loss when no pattern is given."""
    num_steps: int = parameter(200, classic=10, low=1, unit="steps")
    """Minimum number of steps between the compared values."""
    diff_percent: float = parameter(0.1, low=0, high=100, unit="%")
    """By how much the loss must decrease."""
    increase_threshold_percent: float = parameter(5.0, low=0, high=100, unit="%")
    """By how much the loss may increase; used only when strict is off."""
    strict: bool = parameter(True, classic=False)
    """Require the decrease even when the loss rose."""
    smooth: int = parameter(20, classic=1, low=1, unit="values")
    """Compare medians of this many values."""
    plateau_ok_below: float | None = parameter(None)
    """A loss below this value is never reported."""
    successive: int = parameter(2, classic=1, low=1, aliases=("consecutive",))
    """At how many comparisons of the same loss in a row it must hold; noise alone looks flat now and then."""

    def points(self, window: Window) -> list[Points]:
        """Return the new points of each loss, if it judges any."""
        return LossRule.points(self, window) if self.use_losses_collection or self.tensor_regex else []

    def judge_group(self, window: Window, group: list[Points], state: State) -> Issues:
        """Compare each loss num_steps apart, in the requested mode or in the mode with data."""
        since: dict[str, int] = state.setdefault("evaluated_since", {})
        for points in group:
            if points.mode == "eval":
                since.setdefault(points.name, int(points.time[0]))
        for points in group:
            kept = state.setdefault(f"{points.name}/{points.mode}", {"step": [], "value": []})
            if (chosen := self._in_mode(points, since)) is not None:
                yield from self._series_judged(window, chosen, kept)

    def lacking(self, window: Window, *, known: bool, text: str = "") -> None:
        """Report why no values were compared."""
        text = f"a loss needs values {self.num_steps} steps apart"
        LossRule.lacking(self, window, known=known, text=text)

    def _in_mode(self, points: Points, since: dict[str, int]) -> Points | None:
        """Return the points of the requested modes; `since` is the start of a loss's evaluation."""
        if self.mode is not None:
            return points if "global" in self.mode or points.mode in self.mode else None
        if points.mode == "eval":
            return None if self.smooth > 1 else points
        began = since.get(points.name)
        if self.smooth > 1 or began is None:
            return points
        # Classic: evaluation if this loss has evaluations, otherwise training.
        before = int(np.searchsorted(points.time, began))
        return points.until(before) if before else None

    def _series_judged(self, window: Window, points: Points, state: State) -> Issues:
        kept = len(state["step"])
        step = np.concatenate([np.array(state["step"], dtype=np.int64), points.step])
        value = np.concatenate([np.array(state["value"], dtype=np.float64), points.value])
        low = 0
        backs = np.flatnonzero(step[1:] < step[:-1]) + 1
        for end in [*backs.tolist(), len(step)]:
            if low and end > kept:
                # The training restarted from a checkpoint: later values are not comparable.
                state["checked"], state["held"] = None, 0
            for now, before in self._pairs(step[low:end], max(kept - low, 0), state):
                window.judged(1)
                yield from self._compared(
                    points, state, value[low:end], step[low:end], now, before, kept - low
                )
            low = end
        first = int(backs[-1]) if len(backs) else 0
        reach = int(np.searchsorted(step[first:], step[-1] - self.num_steps, side="right"))
        first = max(first, first + reach - self.smooth)
        state["step"], state["value"] = step[first:].tolist(), value[first:].tolist()

    def _pairs(self, step: NDArray[np.int64], new: int, state: State) -> Iterator[tuple[int, int]]:
        """Yield the indices of the values to compare, every num_steps."""
        place = new
        while place < len(step):
            checked = state.get("checked")
            least = max(self.start_step, int(step[0]) if checked is None else checked + self.num_steps)
            place = max(place, int(np.searchsorted(step, least, side="left")))
            if checked is None and place < len(step):
                # The first value with a partner at this distance and enough values to smooth.
                least = int(step[min(self.smooth - 1, len(step) - 1)]) + self.num_steps
                place = max(place, int(np.searchsorted(step, least, side="left")))
            if place >= len(step) or not self.due(int(step[place])):
                return
            before = int(np.searchsorted(step, step[place] - self.num_steps, side="right")) - 1
            state["checked"] = int(step[place])
            if before >= 0:
                yield place, before
            place += 1

    def _compared(
        self,
        points: Points,
        state: State,
        value: NDArray[np.float64],
        step: NDArray[np.int64],
        now: int,
        before: int,
        offset: int,
    ) -> Issues:
        new = float(np.median(value[max(0, now + 1 - self.smooth) : now + 1]))
        old = float(np.median(value[max(0, before + 1 - self.smooth) : before + 1]))
        change = 100.0 * (old - new) / max(abs(old), 1e-12)
        rose = new > old and not self.strict
        flat = -change > self.increase_threshold_percent if rose else change < self.diff_percent
        if self.plateau_ok_below is not None and new < self.plateau_ok_below:
            flat = False
        state["held"] = state.get("held", 0) + 1 if flat else 0
        if state["held"] < self.successive:
            return
        limit = -self.increase_threshold_percent if rose else self.diff_percent
        how = "rose by" if change < 0 else "fell by only"
        yield self.point_issue(
            points,
            now - offset,
            f"{points.name} {how} {abs(change):.3g} % from step {step[before]} to step {step[now]}: "
            f"{old:.5g} to {new:.5g}",
            step_start=int(step[before]),
            evidence={
                "name": points.name, "mode": points.mode, "before": old, "now": new, "change_percent": change,
                "comparator": "<", "threshold": limit, "value": change, "times_in_a_row": state["held"],
            },
        )  # fmt: skip
