"""A first step that comes too late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holter.rules import Issue, Rule, Window, parameter

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxInitializationTime(Rule):
    """From the job's start to its first step more time passes than is allowed."""

    reads = ("steps",)
    category = "framework"
    description = "first step comes too late"
    formula = "time from the job's start to the first step > threshold"
    advice = "Stream the data, keep compiled code in a cache, import and build what is needed first."
    packs = ("default", "performance")

    threshold: float = parameter(10.0, classic=20.0, above=0, unit="min")
    """Minutes allowed before the first step."""

    def evaluate(self, window: Window) -> Iterator[Issue]:
        """Judge once: when the first step came, or when it should have come."""
        job = window.job
        if window.state.get("judged"):
            return window.judged(1)
        if job.first_step is None and not job.trainers:
            return window.insufficient(
                "no_input", "no process that trains was recorded, so no step is to be expected"
            )
        waited = ((window.end if job.first_step is None else job.first_step) - job.start) / 60e9
        if job.first_step is None and waited <= self.threshold:
            have = {"have": waited, "need": self.threshold}
            if job.ended:
                return window.insufficient("run_too_short", "the job ended before its first step", **have)
            return window.insufficient("patience_not_reached", "no step yet", **have)
        window.judged(1)
        if job.first_step is not None:
            window.state["judged"] = True
        if waited > self.threshold:
            late = "the first step came after" if job.first_step is not None else "no step after"
            yield self.issue(
                f"{late} {waited:.1f} min; {self.threshold:g} min are allowed",
                severity="critical" if waited > 3 * self.threshold else self.severity,
                time_start=job.start,
                time_end=job.first_step or window.end,
                evidence={"initialization_min": waited, "threshold_min": self.threshold},
            )
