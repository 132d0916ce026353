"""CorruptedWeight: one element of a weight changed by itself, as after a bit flip in memory."""

from __future__ import annotations

from holter.rules import Issues, Rule, Window, rule_class
from holter.rules.patterns.sentinel import facts


@rule_class
class CorruptedWeight(Rule):
    """A single sampled element has another value, although no optimizer and no edit explains it."""

    reads = ("events/sentinel",)
    severity = "critical"
    formula = (
        "exactly one of all sampled elements changes between the beginning of a step and its update, by one "
        "bit or to more than 1,000 times the largest of its parameter; or between two watched steps, to more "
        "than 10,000 and more than a million times the largest"
    )
    advice = (
        "Continue from a checkpoint before this step; test the memory of this machine or device (ECC errors, "
        "kernel log), and train elsewhere if it happens again. If the script edits this element, ignore this."
    )
    packs = ("default", "essentials", "convergence")

    def evaluate(self, window: Window) -> Issues:
        """Report each element once."""
        for at in facts(window):
            for rank, detail in at.ranks.items():
                flip = detail.get("flip")
                place = f"{rank}/{flip['parameter']}/{flip['element']}" if flip else ""
                known = window.state.setdefault("known", [])
                if not flip or place in known or len(known) >= 10:
                    continue
                known.append(place)
                within = flip["since"] == flip["step"]
                when = (
                    f"within step {at.step}, before its update"
                    if within
                    else f"between steps {flip['since']} and {at.step}"
                )
                by = f", {flip['bits']} bits" if (flip["bits"] or 0) > 1 else ""
                yield self.issue(
                    f"one element of {flip['parameter']} changed {when}: from {_text(flip['before'])} to "
                    f"{_text(flip['after'])}" + (", one bit" if flip["bits"] == 1 else by),
                    rank=rank if len(at.ranks) > 1 else None,
                    tensor=flip["parameter"],
                    step_start=flip["since"],
                    step_end=at.step,
                    evidence=flip,
                )


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
