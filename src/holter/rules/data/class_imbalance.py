"""ClassImbalance: class sizes are uneven, or a class is badly predicted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Window, parameter, rule_class
from holter.rules.patterns.labels import MOST_CLASSES, LabelRule, Patterns
from holter.rules.patterns.tensor_issues import TensorFinding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.rules.engine.step_rows import StepRows

LEAST_SAMPLES, SAMPLES_A_CLASS = 500, 50


@rule_class
class ClassImbalance(LabelRule):
    """Some classes are far rarer than others, or are rarely predicted right."""

    formula = (
        "over all labels so far: labels of the largest class / labels of the smallest > "
        "threshold_imbalance, or wrong predictions / labels of a class > threshold_misprediction"
    )
    advice = (
        "Weight the loss by class or sample rare classes more often, and track the metrics of each class "
        "instead of their mean."
    )
    packs = ("sagemaker",)

    threshold_imbalance: float = parameter(20.0, classic=10.0, low=1)
    """Largest allowed ratio of the largest class to the smallest."""
    threshold_misprediction: float = parameter(0.7, low=0, high=1)
    """Largest allowed share of a class's labels that are predicted wrong."""
    samples: int | None = parameter(None, classic=500, low=1, unit="labels")
    """Number of labels that the rule needs; none = 50 per class, at least 500."""
    labels_regex: tuple[str, ...] | None = parameter(None, classic=(".*labels",))
    """Patterns of the label tensors; none = found by role."""
    predictions_regex: tuple[str, ...] | None = parameter(None, classic=(".*predictions",))
    """Patterns of the prediction tensors; none = found by role."""
    min_class_samples: int = parameter(20, classic=1, low=1, unit="labels")
    """Predictions of a class with fewer labels are not judged."""
    min_accuracy: float = parameter(0.5, classic=0.0, low=0, high=1)
    """A step counts only when at least this share of its predictions is right: an untrained model fails."""
    certain: bool = parameter(True, classic=False)
    """Use the lower 95 % confidence bound of the error share, because few labels err by chance."""
    num_classes: int | None = parameter(None, low=2)
    """Number of classes, so that a class without labels counts; none = the classes that occur."""

    def name_patterns(self) -> tuple[Patterns, Patterns]:
        """Return the patterns that find labels and predictions by name."""
        return self.tensor_regex if self.labels_regex is None else self.labels_regex, self.predictions_regex

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Add to the counts of each class; judge them once there are enough."""
        pairs = self.pairs(window, at, classes=self.num_classes)
        if pairs is None:
            return
        counts: dict[str, list[int]] = window.state.setdefault("classes", {}).setdefault(str(at.rank), {})
        if self.num_classes is not None and not counts:
            counts.update({str(c): [0, 0, 0] for c in range(min(self.num_classes, MOST_CLASSES))})
        wrong = None if pairs.predictions is None else pairs.predictions != pairs.labels
        if wrong is not None and wrong.size and wrong.mean() > 1 - self.min_accuracy:
            wrong = None
        for label in np.unique(pairs.labels).tolist():
            one = counts.setdefault(str(label), [0, 0, 0])
            mine = pairs.labels == label
            one[0] += int(mine.sum())
            if wrong is not None:
                one[1] += int(mine.sum())
                one[2] += int(wrong[mine].sum())
        if len(counts) > MOST_CLASSES:
            counts.clear()
            text = (
                f"{pairs.tensor} has more than {MOST_CLASSES} different values; labels of classes have fewer"
            )
            window.insufficient("no_match", text)
            return
        total = sum(one[0] for one in counts.values())
        need = max(LEAST_SAMPLES, SAMPLES_A_CLASS * len(counts)) if self.samples is None else self.samples
        if total < need:
            self.withdraw(window, at)
            window.insufficient("too_few_points", "too few labels yet", have=total, need=need)
            return
        yield from self._judged(pairs.tensor, counts)

    def _judged(self, tensor: str, counts: dict[str, list[int]]) -> Iterator[TensorFinding]:
        sizes = {label: one[0] for label, one in counts.items()}
        least = min(sorted(sizes), key=lambda label: sizes[label])
        ratio = max(sizes.values()) / sizes[least] if sizes[least] else float("inf")
        if ratio > self.threshold_imbalance:
            more = {"smallest_class": least, "labels": dict(sorted(sizes.items())[:100])}
            what, limit = "largest / smallest class", self.threshold_imbalance
            yield TensorFinding(tensor, what, ratio, ">", limit, code="imbalance", role="labels", more=more)
        wrong = {
            label: _least(errors, judged) if self.certain else errors / judged
            for label, (_, judged, errors) in counts.items()
            if judged >= self.min_class_samples
        }
        bad = {label: share for label, share in sorted(wrong.items()) if share > self.threshold_misprediction}
        if bad:
            worst = max(bad, key=lambda label: bad[label])
            what, limit = f"share of class {worst} that is predicted wrong", self.threshold_misprediction
            classes = {"classes": dict(list(bad.items())[:100])}
            yield TensorFinding(
                tensor, what, bad[worst], ">", limit, code="misprediction", role="labels", more=classes
            )


def _least(errors: int, judged: int) -> float:
    """Return the lower bound of the 95 % confidence interval of a share (Wilson 1927)."""
    z2 = 1.96**2
    share = errors / judged
    spread = 1.96 * math.sqrt(share * (1 - share) / judged + z2 / (4 * judged**2))
    return (share + z2 / (2 * judged) - spread) / (1 + z2 / judged)
