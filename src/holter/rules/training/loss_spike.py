"""LossSpike: the training loss jumps."""

from __future__ import annotations

import re

from holter.rules import Issue, Issues, Severity, Window, parameter, rule_class
from holter.rules.patterns.logged import MAIN_LOSS, PatternRule, is_rate, numbers, restarts
from holter.rules.patterns.loss_watch import Jump, LossWatch

_SEVERITIES: dict[str, Severity] = {"spike": "warning"}


@rule_class
class LossSpike(PatternRule):
    """The mean loss of the ranks jumps far above its recent median; without recovery it is critical."""

    reads = ("scalars",)
    formula = (
        "loss more than z MADs above the median of the last 128 losses (also in logarithms when all are > "
        "0), more than rise x |median| and more than 0.1 % of what the loss has fallen by above it, at two "
        "steps in a row; or z + 4 MADs and |median| above it at one step: warning; still high after 100 "
        "steps, 3 spikes in 1,000 steps, or not finite: critical"
    )
    advice = (
        "Skip the batches of these steps, lower the learning rate, or restart from an earlier checkpoint."
    )
    packs = ("default", "essentials", "convergence")

    names: str = parameter(MAIN_LOSS, aliases=("tensor_regex",))
    """Pattern of the losses among the scalars, anywhere in their names."""
    z: float = parameter(6.0, above=0)
    """Distance above the median, in MADs, from which a loss is an outlier."""
    rise: float = parameter(0.10, low=0)
    """An outlier must also exceed the median by this share of it."""
    start_steps: int = parameter(100, low=0, unit="steps")
    """First steps of the job, in which no loss counts as a spike."""
    history: int = parameter(30, low=5, high=128, unit="losses")
    """Number of losses that the median needs."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each loss by itself, step by step."""
        search = re.compile(self.names).search
        again: dict[int, list[int]] = {}
        found = numbers(window, lambda name: is_rate(name) or search(name))
        for name, one in found:
            if is_rate(name):
                before = window.state.setdefault("rates", {}).setdefault(name, {})
                again.setdefault(one.attempt, []).extend(restarts(one, before))
        losses = window.state.setdefault("losses", {})
        for name, one in found:
            if search(name) is not None:
                window.judged(len(one.steps))
                watch = LossWatch(
                    losses.setdefault(name, {}), self.z, self.rise, self.start_steps, self.history
                )
                for jump in watch.jumps(one, sorted(again.get(one.attempt, []))):
                    yield self._issue(name, jump)
        if not losses:
            window.insufficient("no_input", "no loss is logged; log it with holter.log(loss=...)")

    def _issue(self, name: str, jump: Jump) -> Issue:
        e = jump.evidence
        texts = {
            "spike": "{n} jumped to {value:.4g} at step {step}; usual was {median:.4g}",
            "divergence": "{n} jumped at step {step} and has not come back after 100 steps: "
            "{median_of_last_20:.4g} instead of {median:.4g}",
            "unstable": "{n} jumped again and again, last at step {step}, to {value:.4g} from {median:.4g}",
            "nonfinite": "{n} became {value} at step {step}",
        }
        return self.issue(
            texts[jump.what].format(n=name, **e),
            code=jump.what,
            severity=_SEVERITIES.get(jump.what, "critical"),
            tensor=name,
            step_start=e["step"],
            step_end=jump.step,
            evidence={"name": name, **e},
        )
