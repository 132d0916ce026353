"""Stop the job: SIGTERM by its agents, SIGKILL after a grace period, and the reason in its manifest."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holter.actions import Action, ActionFailed, BadAction, Limits, Occasion, Secrets, parameter, written
from holter.store.job import JobFolder, jobs

_RUNNING = ("InProgress", "Stopping")
_PREFIX = re.compile(r"[A-Za-z0-9._\-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTraining(Action):
    """Stop this job, or the one job with a prefix, in the same way as `holter stop`."""

    description = "stops the job gracefully and writes down which rule did"
    also_called = ("stop",)
    needs_arming = True
    limits = Limits(max_per_run=1)

    grace_s: float = parameter(60.0, low=0, high=86_400, unit="s")
    """Time between SIGTERM and SIGKILL."""
    job_prefix: str = parameter("", aliases=("training_job_prefix",))
    """The prefix of the job to stop instead; refused unless exactly one running job matches."""

    def __post_init__(self) -> None:
        Action.__post_init__(self)
        if self.job_prefix and not _PREFIX.fullmatch(self.job_prefix):
            raise BadAction(
                f"stop_training: job_prefix={self.job_prefix!r} is no start of a job's name; "
                "it takes letters, digits, '.', '_' and '-'"
            )

    def act(self, occasion: Occasion, secrets: Secrets) -> str:
        """Write the order; the agents read it about once a second."""
        target = self._target(occasion)
        if target.manifest().get("end") is not None:
            raise ActionFailed("the job has ended already")
        if target.control().get("stop"):
            return "the job is being stopped already"
        step = occasion.issue.get("step_start")
        reason = f"Stopped by rule {occasion.rule}" + ("" if step is None else f" at step {step}")
        by = {"rule": occasion.rule, "step": step, "reason": reason}
        if target.name != occasion.folder.name:
            by["job"] = occasion.folder.name
        with written("the order"):
            target.order(stop={"grace_s": self.grace_s, "by": by})
        return f"told job {target.name} to stop"

    def _target(self, occasion: Occasion) -> JobFolder:
        if not self.job_prefix:
            return occasion.folder
        store = occasion.folder.url.rpartition("/")[0] or "/"
        found = [
            one
            for one in jobs(store)
            if one.name.startswith(self.job_prefix) and one.manifest().get("status") in _RUNNING
        ]
        if len(found) != 1:
            names = ", ".join(one.name for one in found[:5]) or "none"
            raise ActionFailed(
                f"refused: not exactly one running job begins with {self.job_prefix!r}, but {names}"
            )
        return found[0]
