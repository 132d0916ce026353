"""ResumeIncomplete: a training resumes without the state of its optimizer or schedule."""

from __future__ import annotations

from typing import Any

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.sentinel import facts

_ADVICE = {
    "optimizer": "Call optimizer.load_state_dict(checkpoint[...]) after model.load_state_dict(...).",
    "schedule": "Call scheduler.load_state_dict(checkpoint[...]) too, or give the schedule its last_epoch.",
}


@rule_class
class ResumeIncomplete(Rule):
    """A checkpoint holds the state of an optimizer or schedule, which begins anew."""

    reads = ("events/sentinel",)
    formula = (
        "a checkpoint with the state of an optimizer is loaded into the model that trains, no optimizer "
        "takes its state, and the optimizer is new: warning if the process was started again or saves "
        "checkpoints of that name, numbers aside, else note; or the optimizer takes its state, and all "
        "schedules are `calls` calls or more behind: warning"
    )
    advice = _ADVICE["optimizer"]
    packs = ("default", "essentials", "convergence")

    calls: int = parameter(5, low=1)
    """Number of calls that a schedule is behind."""

    def evaluate(self, window: Window) -> Issues:
        """Compare what the checkpoint holds with what was loaded."""
        state = window.state
        for at in facts(window):
            state["again"] = state.get("again", False) or at.step < state.get("last", -1)
            state["last"] = at.step
            found = at.first.get("resumed")
            if not found:
                continue
            told = state.setdefault("told", {})
            key = f"{found['file']}/{found['step']}"
            for code, severity, text in _problems(
                found, at.first.get("schedules", []), self.calls, state["again"]
            ):
                if told.get(f"{key}/{code}") == severity:
                    continue
                told[f"{key}/{code}"] = severity
                yield self.issue(
                    text,
                    code=code,
                    severity=severity,
                    step_start=found["step"],
                    step_end=at.step,
                    advice=_ADVICE[code],
                    evidence=found,
                )


def _problems(
    found: dict[str, Any], schedules: list[dict[str, Any]], calls: int, again: bool
) -> list[tuple[str, Any, str]]:
    name = found["file"] or "a checkpoint"
    at = f" of {found['at'][0]} {found['at'][1]}" if found["at"] else ""
    if found["model_loaded"] and not found["optimizers_loaded"] and found["fresh"]:
        severity = "warning" if again or found["own"] else "info"
        text = f"the optimizer begins anew at step {found['step']}: nothing loads its state from {name}{at}"
        return [("optimizer", severity, text)]
    mine = [one["steps"] for one in schedules if one["since"] >= found["step"]]
    if found["optimizers_loaded"] and found["schedule"] is not None and mine:
        behind = found["schedule"] - max(mine)
        if behind >= calls:
            text = (
                f"the schedule of the learning rate begins anew: {name}{at} was saved after "
                f"{found['schedule']} of its calls, and it is {behind} calls behind"
            )
            return [("schedule", "warning", text)]
    return []
