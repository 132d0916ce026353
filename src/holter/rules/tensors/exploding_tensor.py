"""ExplodingTensor: a tensor contains NaN or infinity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.rules import Table, Window, parameter, rule_class
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from holter.rules.engine.step_rows import StepRows


@rule_class
class ExplodingTensor(TensorRule):
    """A tensor contains NaN or infinity."""

    severity = "critical"
    formula = "any element is NaN or, unless only_nan is set, infinite"
    advice = (
        "Start at the tensor that was affected first. Lower the learning rate, clip gradients, or train in "
        "bfloat16 instead of float16; then restart from an earlier checkpoint."
    )
    packs = ("convergence", "sagemaker")
    also_called = ("ExplodingGradient", "ExplodingGradients")
    nonfinite = True
    save = "all@100"

    only_nan: bool = parameter(False)
    """Report NaN only, and ignore infinity."""
    tolerate_scaler_skips: bool = parameter(True, classic=False)
    """Ignore gradients that made a loss scaler skip the step: the scaler finds its scale this way."""
    tolerate_masks: bool = parameter(True, classic=False)
    """Ignore minus infinity in inputs of softmax and in tensors named like a mask: it is intended there."""

    def doubtful(self, window: Window, table: Table, edges: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which tensors have an element that is not finite."""
        return table["finite"] < table["count"]

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Count what is not finite in each tensor."""
        table = self.judgeable(window, at)
        for row in self.listed(table.where(table["doubtful"])):
            gradient = row["role"] == "grad" or row["name"].startswith("gradient")
            if self.tolerate_scaler_skips and row["state"] == "skipped" and gradient:
                continue
            masks = self.tolerate_masks and (
                row["role"] == "act_in:softmax" or "mask" in row["name"].casefold()
            )
            infinite = 0 if self.only_nan else row["posinf"] + (0 if masks else row["neginf"])
            if row["nan"] + infinite > 0:
                yield TensorFinding(
                    tensor=row["name"],
                    what="NaN or infinite elements",
                    value=float(row["nan"] + infinite),
                    comparator=">",
                    threshold=0.0,
                    role=row["role"],
                    more={"nan": row["nan"], "posinf": row["posinf"], "neginf": row["neginf"]},
                )
