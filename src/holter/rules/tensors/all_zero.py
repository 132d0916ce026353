"""AllZero: tensors whose elements are all zero, or nearly all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Table, Window, parameter, rule_class
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.rules.engine.step_rows import StepRows


@rule_class
class AllZero(TensorRule):
    """A tensor consists of zeros, at least to the share `threshold`."""

    formula = "share of zero elements >= threshold"
    advice = (
        "Find what feeds the listed tensors: dead activations, a loss that does not reach them, or weights "
        "that start at zero. Change their initialisation or activation."
    )
    packs = ("sagemaker",)
    roles = ("weight", "embedding", "grad", "loss")
    statistics = ("zeros",)
    save = "gradients@100"

    threshold: float = parameter(100.0, above=0, high=100, unit="%")
    """Share of zero elements from which a tensor counts as zero."""
    ignore_first_step: bool = parameter(True, classic=False)
    """Ignore the first saved step of each tensor, because some tensors start at zero on purpose."""
    include_frozen: bool = parameter(False, classic=True)
    """Also judge frozen and unused parameters."""
    successive: int = parameter(5, classic=1, low=1, aliases=("consecutive",))
    """At how many evaluations of the same tensor in a row the condition must hold."""

    def doubtful(self, window: Window, table: Table, edges: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which tensors have enough zeros, or are new."""
        seen = {(int(rank), name) for rank, names in window.state.get("seen", {}).items() for name in names}
        places = zip(table["rank"].tolist(), table["name"].tolist(), strict=True)
        old = np.fromiter(map(seen.__contains__, places), bool, table.rows)
        return ~old | (100.0 * table["zeros"] >= self.threshold * table["count"])

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Count the zeros of each tensor."""
        seen = set(window.state.setdefault("seen", {}).get(str(at.rank), ()))
        table = self.judgeable(window, at)
        for row in self.listed(table.where(100.0 * table["zeros"] >= self.threshold * table["count"])):
            share = 100.0 * row["zeros"] / row["count"]
            first = self.ignore_first_step and row["name"] not in seen
            if not first and (self.include_frozen or not row["state"]):
                yield TensorFinding(
                    tensor=row["name"], what="share of zeros", value=share, comparator=">=",
                    threshold=self.threshold, unit=" %", role=row["role"],
                )  # fmt: skip
        if not at.judged <= seen:
            window.state["seen"][str(at.rank)] = sorted(seen | at.judged)
