"""StalledTrainingRule: no tensor and no scalar is saved for too long."""

from __future__ import annotations

import dataclasses

import numpy as np

from holter.rules import Issues, Lookback, Rule, Window, parameter, rule_class
from holter.rules.patterns.stalls import LOOKBACK, READS, Stalls

SAVED = ("tensors", "tensor_values", "scalars")


@rule_class
class StalledTrainingRule(Rule):
    """Nothing was saved for longer than threshold; without a threshold the rule judges as StalledTraining."""

    reads = (*SAVED, *READS)
    severity = "critical"
    formula = "time since the last saved tensor or scalar > threshold; without a threshold as StalledTraining"
    advice = (
        "Read the stacks of all ranks, first those of the ranks that stopped outside the "
        "collective in which the others wait; end the job if it does not go on."
    )
    packs = ("sagemaker",)
    tells_once = True

    threshold: float | None = parameter(None, classic=1800.0, above=0, unit="s")
    """Allowed time without saved data, from the job's start on; none = the limit of StalledTraining."""
    stop_training_on_fire: bool = parameter(False)
    """Request that the job be stopped: the evidence then holds `stop_training`."""
    training_job_name_prefix: str | None = parameter(None)
    """Accepted for old configurations and ignored: the rule judges the job that it is given."""

    @property
    def lookback(self) -> Lookback:
        """New rows only; without a threshold also the last steps."""
        return LOOKBACK if self.threshold is None else Lookback()

    def evaluate(self, window: Window) -> Issues:
        """Look for gaps between the saved rows, and for silence after the last row."""
        if self.threshold is None:
            for issue in Stalls(rule=self).judge(window):
                yield dataclasses.replace(issue, evidence={**issue.evidence, **self._request()})
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

    def _silence(self, window: Window, since: int, limit: int) -> Issues:
        """Report each silence once."""
        if window.state.get("reported") == since:
            return
        window.state["reported"] = since
        began = "the job's start" if since == window.job.start else "the last saved value"
        yield self.issue(
            f"nothing was saved for more than {limit / 1e9:g} s after {began}",
            time_start=since,
            time_end=since + limit,
            evidence={"comparator": ">", "threshold": limit / 1e9, "since": since, **self._request()},
        )

    def _request(self) -> dict[str, bool]:
        return {"stop_training": True} if self.stop_training_on_fire else {}
