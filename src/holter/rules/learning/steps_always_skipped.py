"""StepsAlwaysSkipped: a gradient scaler skips all steps, or most of them, so the model does not learn."""

from __future__ import annotations

from holter.rules import Issues, Rule, Window, parameter, rule_class

_RECENT = 100


@rule_class
class StepsAlwaysSkipped(Rule):
    """Gradients stay infinite or NaN whatever the scale of the loss is."""

    reads = ("spans/skipped", "steps")
    severity = "critical"
    formula = (
        "a gradient scaler skips `steps` steps of an optimizer in a row; or, from step 200 on, more than "
        "`share` of the last 100 steps: warning"
    )
    advice = (
        "Find the first tensor that is not finite (holter names its module), or use bfloat16; a scaler whose "
        "scale has fallen by 2^24 does not recover."
    )
    packs = ("default", "essentials", "convergence")

    steps: int = parameter(24, low=2, unit="steps")
    """Skipped steps in a row: more than a scaler needs to find its scale."""
    share: float = parameter(0.5, above=0, high=1)
    """Share of skipped steps."""

    def evaluate(self, window: Window) -> Issues:
        """Count the skipped steps of each optimizer."""
        steps = window.new("steps")
        window.judged(steps.rows)
        if steps.rows:
            window.state["seen"] = True
        rows = window.spans_of("skipped", new=True).sorted("time", "rank", "name")
        for row in rows.to_rows():
            yield from self._skip(window, int(row["rank"]), str(row["name"]), int(row["step"]))
        if "seen" not in window.state:
            window.insufficient("no_input", "no step of a training is recorded")

    def _skip(self, window: Window, rank: int, name: str, step: int) -> Issues:
        known = window.state.setdefault(f"{rank}/{name}", {"recent": [], "row": 0})
        recent = known["recent"]
        if recent and step == recent[-1]:
            return
        known["row"] = known["row"] + 1 if recent and step == recent[-1] + 1 else 1
        known["recent"] = [one for one in recent if step - _RECENT < one < step] + [step]
        evidence = {
            "optimizer": name,
            "skipped_in_a_row": known["row"],
            "skipped_of_100": len(known["recent"]),
        }
        if known["row"] == self.steps:
            yield self.issue(
                f"the scaler has skipped {known['row']} steps of {name} in a row since step "
                f"{step + 1 - known['row']}: its gradients are never finite",
                code="all",
                rank=rank,
                step_start=step + 1 - known["row"],
                step_end=step,
                evidence=evidence,
            )
        elif step >= 2 * _RECENT and len(known["recent"]) > self.share * _RECENT and "told" not in known:
            known["told"] = step
            yield self.issue(
                f"the scaler has skipped {len(known['recent'])} of the last {_RECENT} steps of {name}",
                code="many",
                severity="warning",
                rank=rank,
                step_start=known["recent"][0],
                step_end=step,
                evidence=evidence,
            )
