"""FeatureImportanceOverweight: a few features carry nearly all importance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from holter.rules import Window, parameter, rule_class
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.rules.engine.step_rows import StepRows


@rule_class
class FeatureImportanceOverweight(TensorRule):
    """The few most important features of a tree model weigh far more than all others together."""

    formula = "sum of the nfeatures largest importances / sum of all > threshold"
    advice = (
        "Check the listed features: remove one that leaks the label. Otherwise try deeper trees, column "
        "sampling, or fewer features."
    )
    packs = ("sagemaker",)
    statistics = ("mean",)
    save = "feature_importance@10"
    saves = True

    tensor_regex: tuple[str, ...] | None = parameter(
        (".*feature_importance/gain",), classic=(".*feature_importance/weight",)
    )
    """Patterns that find the importances, one tensor for each feature."""
    threshold: float = parameter(0.8, low=0, high=1)
    """Largest allowed share of the most important features."""
    nfeatures: int = parameter(3, low=1, unit="features")
    """Number of features that are summed."""
    more_features_only: bool = parameter(True, classic=False)
    """Judge only models with more features than nfeatures."""

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Compare the sum of the largest importances with the sum of all."""
        scores: dict[str, float] = {}
        for row in self.rows(window, at):
            if math.isfinite(row["mean"]):
                scores[row["name"]] = max(float(row["mean"]), scores.get(row["name"], 0.0), 0.0)
        total = math.fsum(scores.values())
        if total <= 0 or (self.more_features_only and len(scores) <= self.nfeatures):
            self.withdraw(window, at)
            text = f"there are no importances of more than {self.nfeatures} features"
            window.too_few(text, len(scores), self.nfeatures + 1)
            return
        first = sorted(scores, key=lambda name: (-scores[name], name))[: self.nfeatures]
        share = math.fsum(scores[name] for name in first) / total
        if share > self.threshold:
            yield TensorFinding(
                tensor=first[0],
                what="share of importance",
                value=share,
                comparator=">",
                threshold=self.threshold,
                more={"features": {name.rpartition("/")[2]: scores[name] / total for name in first}},
            )

    def say(self, findings: list[TensorFinding], step: int) -> str:
        """Name the features."""
        features = ", ".join(findings[0].more["features"])
        share = f"{findings[0].value:.4g} > {findings[0].threshold:.4g}"
        return f"{features} hold this share of the importance of all features at step {step}: {share}"
