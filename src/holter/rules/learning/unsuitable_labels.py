"""UnsuitableLabels: labels of a classification are all equal, out of range, ignored, or sorted by class."""

from __future__ import annotations

import itertools
from typing import Any

from holter.rules import Issues, Rule, Severity, Window, parameter, rule_class
from holter.rules.patterns.sentinel import StepFacts, facts, times

_AFFINE = {"Addmm", "Mm", "Bmm", "Baddbmm", "Add", "Linear", "Convolution"}
"""What computes the scores of a classifier. Contrastive losses divide or join similarities instead, and their
labels are all 0 by design."""
_PASSED = {"LogSoftmax", "ToCopy", "View", "UnsafeView", "Squeeze", "Mean", "Reshape"}
_BATCHES = 64
"""Batches that are remembered."""
_FEW = 8
"""Labels of a batch that are too few to compare batches."""
_APART = 0.6
"""Chance that labels of two batches are equal, relative to that within a batch, of batches that are alike."""
_ADVICE = {
    "constant": "Print a few labels; if they differ, shuffle: DataLoader(..., shuffle=True).",
    "sorted": "Shuffle the data: DataLoader(..., shuffle=True), or a DistributedSampler with set_epoch().",
    "range": "Give binary_cross_entropy targets from 0 to 1: map {-1, 1} or {0, 255} to {0, 1}.",
    "ignored": "Check how labels are made: ignore_index leaves out all of them, so nothing is learned.",
}


@rule_class
class UnsuitableLabels(Rule):
    """The labels that a loss keeps at watched steps carry little or wrong information."""

    reads = ("events/sentinel",)
    formula = (
        "labels of cross_entropy, one for each sample, are all equal at 5 watched steps: warning from "
        "`labels` labels of 3 or more classes on, note from a quarter as many on; or, in 6 batches of 8 "
        "labels or more, two labels of one batch are equal with a chance of at least `alike`, and two of "
        "different batches with at most 60 % of that: warning. At 3 watched steps, targets of "
        "binary_cross_entropy are outside of 0 to 1, or all labels are ignore_index: warning"
    )
    advice = _ADVICE["constant"]
    packs = ("default", "essentials", "convergence")

    labels: int = parameter(256, low=2)
    """Number of labels that are not all equal by chance."""
    alike: float = parameter(0.6, low=0, high=1)
    """Chance that two labels of one batch are equal from which on batches are compared."""

    def evaluate(self, window: Window) -> Issues:
        """Look at the labels of each step."""
        for at in facts(window):
            one = at.first.get("labels")
            if one is None or "sampled" not in one:
                continue
            yield from self._values(window, at, one)
            if _is_classifier(at, one) and one["sampled"]:
                state = window.state.setdefault("batches", [])
                if len(state) < _BATCHES:
                    state.append(one["most"])
                    yield from self._constant(window, at, one, state)
                    yield from self._sorted(window, at, state)

    def _tell(
        self,
        window: Window,
        at: StepFacts,
        code: str,
        text: str,
        severity: Severity = "warning",
        **about: Any,
    ) -> Issues:
        if times(window, f"{code}/{severity}") == 1:
            yield self.issue(
                text, code=code, severity=severity, advice=_ADVICE[code], step_end=at.step, **about
            )

    def _values(self, window: Window, at: StepFacts, one: dict[str, Any]) -> Issues:
        outside = one["loss"].startswith("Binary") and (one.get("low", 0) < 0 or one.get("high", 1) > 1)
        if outside and times(window, "steps/range") == 3:
            text = f"targets of binary cross-entropy are {one['low']:g} to {one['high']:g}, not 0 to 1"
            yield from self._tell(window, at, "range", text, evidence=one)
        if one["ignored"] and not one["sampled"] and times(window, "steps/ignored") == 3:
            text = f"all labels are {one['ignore_index']}, which the loss ignores, at 3 watched steps"
            yield from self._tell(window, at, "ignored", text, evidence=one)

    def _constant(self, window: Window, at: StepFacts, one: dict[str, Any], batches: list[Any]) -> Issues:
        seen = {label for most in batches for label, _ in most}
        count = sum(n for most in batches for _, n in most)
        if len(seen) != 1 or len(batches) < 5:
            return
        sure = count >= self.labels and one["classes"] > 2
        if not sure and count < self.labels / 4:
            return
        yield from self._tell(
            window,
            at,
            "constant",
            f"all {count} labels at {len(batches)} watched steps are class {one['most'][0][0]} of "
            f"{one['classes']}: labels are wrong, or the data is sorted by class",
            severity="warning" if sure else "info",
            evidence={"labels": count, "label": one["most"][0][0], "classes": one["classes"]},
        )

    def _sorted(self, window: Window, at: StepFacts, batches: list[Any]) -> Issues:
        large = [most for most in batches if sum(n for _, n in most) >= _FEW]
        if len(large) < 6:
            return
        within = sum(map(_within, large)) / len(large)
        pairs = list(itertools.combinations(large, 2))
        between = sum(_between(a, b) for a, b in pairs) / len(pairs)
        if within < self.alike or between > _APART * within:
            return
        classes = sum(len(most) for most in large) / len(large)
        yield from self._tell(
            window,
            at,
            "sorted",
            f"labels are sorted by class: a batch has {classes:.2g} classes on average, all "
            f"{len(large)} watched batches have {len({label for most in large for label, _ in most})}",
            evidence={"within": within, "between": between, "batches": len(large)},
        )


def _is_classifier(at: StepFacts, one: dict[str, Any]) -> bool:
    """Return whether a loss has one label for each sample, and scores of a linear layer."""
    if one["loss"] != "NllLoss" or one.get("classes", 0) < 2:
        return False
    computed = next((name for name in one["after"] if name not in _PASSED), None)
    samples = {tuple(given["shape"][:1]) for given in at.first.get("inputs", ())}
    return computed in _AFFINE and tuple(one["shape"]) in samples


def _within(most: list[list[int]]) -> float:
    """Return the chance that two labels of one batch are equal."""
    total = sum(n for _, n in most)
    return sum(n * (n - 1) for _, n in most) / (total * (total - 1))


def _between(one: list[list[int]], other: list[list[int]]) -> float:
    """Return the chance that a label of one batch equals a label of another."""
    there = {label[0]: label[1] for label in other}
    total = sum(n for _, n in one) * sum(n for _, n in other)
    return sum(n * there.get(label, 0) for label, n in one) / total
