"""NoCheckpoint: no checkpoint is written for hours."""

from __future__ import annotations

from holter.rules import Issues, Rule, Window, parameter, rule_class


@rule_class
class NoCheckpoint(Rule):
    """No checkpoint was finished for hours, so a failure loses all this work."""

    reads = ("steps", "spans/checkpoint")
    formula = "time since the last checkpoint, or since the first step, > max(after_h, 10 % of planned_h)"
    advice = "Save the model and the optimizer regularly; a failure loses all work since the last checkpoint."
    packs = ("performance",)
    every_s = 60.0

    after_h: float = parameter(4.0, above=0, unit="h", aliases=("threshold",))
    """Allowed time without a checkpoint."""
    planned_h: float | None = parameter(None, above=0, unit="h")
    """Planned duration of the whole job, if it is known."""

    def evaluate(self, window: Window) -> Issues:
        """Judge the whole job: a checkpoint of one rank is enough."""
        state, job = window.state, window.job
        saved = window.spans_of("checkpoint", new=True)
        if saved.rows:
            state["last"] = max(state.get("last", 0), int((saved["time"] + saved["duration"]).max()))
        steps = window.new("steps")
        if steps.rows:
            state["newest"] = max(state.get("newest", 0), int((steps["time"] + steps["duration"]).max()))
        if job.first_step is None or "newest" not in state:
            return window.insufficient("no_input", "no step")
        limit = max(self.after_h, 0.1 * (self.planned_h or 0.0))
        since = max(job.first_step, state.get("last", 0))
        # Up to the last step, because StalledTraining reports a job that has stopped.
        hours = (state["newest"] - since) / 3600e9
        if hours <= limit and "last" not in state:
            text = "no checkpoint was seen, and the job is too young for that to matter"
            return window.insufficient("patience_not_reached", text, have=max(hours, 0.0), need=limit)
        window.judged(1)
        if hours > limit:
            what = "since the last checkpoint" if "last" in state else "without any checkpoint"
            yield self.issue(
                f"{hours:.1f} h of training {what}",
                time_start=since,
                time_end=state["newest"],
                evidence={"hours": hours, "limit_h": limit, "checkpoints_seen": "last" in state},
            )
