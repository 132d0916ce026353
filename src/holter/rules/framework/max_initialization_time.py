"""MaxInitializationTime: the first step starts too late."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.event_details import details_of

_MOMENTS = ("process", "framework")


@rule_class
class MaxInitializationTime(Rule):
    """The time from the job's start to its first step exceeds the limit.

    Without recorded steps, a logged scalar also counts as a step.
    """

    reads = ("steps", "scalars", "events/process", "events/framework")
    formula = "time from the start of the job to the first step > threshold"
    advice = (
        "Stream the data, keep compiled code in a cache, and import or build only what the first step needs."
    )
    packs = ("default", "performance", "sagemaker")

    threshold: float = parameter(10.0, classic=20.0, above=0, unit="min")
    """Allowed time before the first step."""

    def evaluate(self, window: Window) -> Issues:
        """Judge once: at the first step, or when it is overdue."""
        job, state = window.job, window.state
        _learn(window)
        first = job.first_step if job.first_step is not None else state.get("scalar")
        window.details = _details(window, first)
        if state.get("judged"):
            return window.judged(1)
        if first is None and not job.trainers:
            return window.insufficient(
                "no_input", "no process that trains was recorded, so no step is to be expected"
            )
        waited = ((window.end if first is None else first) - job.start) / 60e9
        if first is None and waited <= self.threshold:
            have = {"have": waited, "need": self.threshold}
            if job.ended:
                return window.insufficient("run_too_short", "the job ended before its first step", **have)
            return window.insufficient("patience_not_reached", "no step yet", **have)
        window.judged(1)
        if first is not None:
            state["judged"] = True
        if waited > self.threshold:
            late = "the first step came after" if first is not None else "no step after"
            parts = _parts(window, first)
            most = max(parts, key=lambda name: parts[name]) if parts else None
            yield self.issue(
                f"{late} {waited:.1f} min; {self.threshold:g} min are allowed"
                + (f"; longest: {_WORDS[most]}" if most else ""),
                severity="critical" if waited > 3 * self.threshold else self.severity,
                time_start=job.start,
                time_end=first or window.end,
                evidence={"initialization_min": waited, "threshold_min": self.threshold, "parts_s": parts},
            )


_WORDS = {
    "launch": "until the process started",
    "import": "imports until the framework was there",
    "preparation": "data and model, from the framework's import to the first step",
    "compile": "compiling, in the first step",
    "first_batch": "the first batch, in the first step",
}


def _learn(window: Window) -> None:
    """Keep the times of the start-up events, and the first and last step."""
    state = window.state
    steps = window.new("steps")
    if steps.rows:
        state["last"] = max(int(steps["time"].max()), state.get("last", -(2**62)))
    if state.get("judged"):
        return
    events = window.new("events")
    for kind in _MOMENTS:
        for row, detail in details_of(events, kind):
            if kind != "process" or detail.get("role", "trainer") == "trainer":
                state[kind] = min(row["time"], state.get(kind, 2**62))
    scalars = window.new("scalars")
    if scalars.rows:
        state["scalar"] = min(int(scalars["time"].min()), state.get("scalar", 2**62))
    if not steps.rows:
        return
    row = next(steps.where(np.lexsort((steps["rank"], steps["time"]))[:1]).to_rows())
    if row["time"] < state.get("first", {}).get("time", 2**62):
        state["first"] = {name: row[name] for name in ("time", "compile", "data_loading")}


def _parts(window: Window, first: int | None) -> dict[str, float]:
    """Return the seconds of each part of start-up whose start and end are known, in order."""
    state = window.state
    until = window.end if first is None else first
    moments = [("launch", state.get("process")), ("import", state.get("framework")), ("preparation", until)]
    parts, since = {}, window.job.start
    for name, moment in moments:
        if moment is not None and moment >= since:
            parts[name] = (moment - since) / 1e9
            since = moment
    for name, column in (("compile", "compile"), ("first_batch", "data_loading")):
        if state.get("first", {}).get(column):
            parts[name] = state["first"][column] / 1e9
    return parts


def _details(window: Window, first: int | None) -> dict[str, object]:
    """Return the details of the classic report, with steps in microseconds, and the parts of start-up."""
    state = window.state
    begun = state.get("first", {}).get("time", first)
    return {
        "step_num": {
            "first": None if begun is None else begun // 1000,
            "last": state["last"] // 1000 if "last" in state else None,
        },
        "job_start": window.job.start / 1e9,
        "job_end": window.end / 1e9,
        "parts_s": _parts(window, first),
    }
