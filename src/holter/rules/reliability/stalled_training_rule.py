"""Silence: nothing was saved for too long, as SageMaker's rule of this name had it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Issue, Lookback, Rule, Window, parameter
from holter.rules.reliability.stalled_training import StalledTraining

if TYPE_CHECKING:
    from collections.abc import Iterator

SAVED = ("tensors", "tensor_values", "scalars")


_BY_STEPS = StalledTraining()
"""What judges without a threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledTrainingRule(Rule):
    """No tensor and no number has come for longer than threshold; without one, as StalledTraining judges."""

    reads = (*SAVED, *StalledTraining.reads)
    severity = "critical"
    description = "nothing saved for too long"
    formula = "no row of tensors or scalars for longer than threshold; without a threshold as StalledTraining"
    advice = (
        "Look at the stacks of all ranks, first at those that are not where the others wait; end the job if "
        "it does not go on."
    )
    packs = ("sagemaker",)
    tells_once = True

    threshold: float | None = parameter(None, classic=1800.0, above=0, unit="s")
    """Silence that is allowed, from the job's start on; none = by how long steps take, as StalledTraining."""
    stop_training_on_fire: bool = parameter(False)
    """Ask for the job to be stopped; said in the evidence as `stop_training`."""
    training_job_name_prefix: str | None = parameter(None)
    """Accepted for old configurations; the job that is judged is the one that is meant."""

    @property
    def lookback(self) -> Lookback:
        """What StalledTraining needs, where it judges."""
        return _BY_STEPS.lookback if self.threshold is None else Lookback()

    def evaluate(self, window: Window) -> Iterator[Issue]:
        """Look for gaps between what was saved, and for the silence after the last of it."""
        if self.threshold is None:
            for issue in _BY_STEPS.evaluate(window):
                yield dataclasses.replace(
                    issue, rule=type(self).__name__, evidence={**issue.evidence, **self._request()}
                )
            return
        times = np.sort(np.concatenate([window.new(table)["time"] for table in SAVED]))
        last = window.state.setdefault("last", window.job.start)
        marks = np.concatenate([[last], times[times > last], [window.end]])
        limit = round(self.threshold * 1e9)
        for gap in np.flatnonzero(np.diff(marks) > limit).tolist():
            yield from self._silence(window, int(marks[gap]), limit)
        window.state["last"] = int(max(last, times[-1])) if len(times) else last
        window.state["seen"] = window.state.get("seen", 0) + len(times)
        if window.state["seen"] or window.end - window.state["last"] > limit:
            window.judged(max(1, len(times)))
        else:
            window.insufficient("no_input", "nothing was saved yet; log a number each step")

    def _silence(self, window: Window, since: int, limit: int) -> Iterator[Issue]:
        """Tell each silence once."""
        if window.state.get("told") == since:
            return
        window.state["told"] = since
        began = "the job's start" if since == window.job.start else "the last saved value"
        yield self.issue(
            f"nothing was saved for more than {limit / 1e9:g} s after {began}",
            time_start=since,
            time_end=since + limit,
            evidence={"comparator": ">", "threshold": limit / 1e9, "since": since, **self._request()},
        )

    def _request(self) -> dict[str, bool]:
        return {"stop_training": True} if self.stop_training_on_fire else {}
