"""TensorVariance: the variance of a tensor is outside its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Table, Window, parameter, rule_class
from holter.rules.patterns.tensor_columns import swapped
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.rules.engine.step_rows import StepRows


@rule_class
class TensorVariance(TensorRule):
    """The variance of a tensor is too large, too small, or far from its first value."""

    formula = (
        "variance > max_threshold, or < min_threshold (at the first saved step only with first_small), or "
        "changed by more than the factor relative_change"
    )
    advice = (
        "Check the initialisation and the learning rate of the listed tensors. A growing variance leads to "
        "overflow; a vanishing variance means that the layer carries no information."
    )
    packs = ("sagemaker",)
    roles = ("weight", "embedding")
    statistics = ("std",)

    collection_names: tuple[str, ...] | None = parameter(None)
    """Collections whose tensors are judged, with those found by patterns; weights when neither is given."""
    max_threshold: float | None = parameter(None, low=0)
    """Largest allowed variance; none = not checked."""
    min_threshold: float | None = parameter(1e-12, classic=None, low=0)
    """Smallest allowed variance; none = not checked."""
    relative_change: float | None = parameter(100.0, classic=None, above=1)
    """Largest allowed factor against the first saved step of the tensor; none = not checked."""
    first_small: bool = parameter(False, classic=True)
    """Also report too small a variance at the first saved step; adapters start with zeros."""
    include_single: bool = parameter(False, classic=True)
    """Also judge tensors with one element, whose variance is always 0."""

    def remember(self, window: Window, at: StepRows) -> None:
        """Keep each tensor's first variance."""
        self._first(window, at, self.newest(self.judgeable(window, at)))

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Compare each tensor's variance with the limits and with its first."""
        if self.max_threshold is None and self.min_threshold is None and self.relative_change is None:
            window.insufficient("no_input", "no limit is set; set max_threshold or min_threshold")
            return
        table = self.newest(self.judgeable(window, at))
        known, first = self._first(window, at, table)
        variance = table["std"].astype(np.float64) ** 2
        # A tensor is reported once, for the first limit that it exceeds.
        left = np.full(table.rows, True) if self.include_single else table["count"] >= 2
        for comparator, limit, quiet in self._limits(first, known):
            beyond = left & ((variance > limit) if comparator == ">" else (variance < limit))
            left &= ~beyond
            reported = beyond & ~quiet
            columns = {"variance": variance[reported], "limit": limit[reported]}
            for row in self.listed(table.where(reported), **columns) if reported.any() else ():
                yield TensorFinding(
                    tensor=row["name"], what="variance", value=row["variance"], comparator=comparator,
                    threshold=row["limit"], code="large" if comparator == ">" else "small", role=row["role"],
                )  # fmt: skip

    def _limits(
        self, first: NDArray[np.float64], known: NDArray[np.bool_]
    ) -> Iterator[tuple[str, NDArray[np.float64], NDArray[np.bool_]]]:
        """Yield how each tensor's variance may not compare with which limit, and where that is let pass."""
        never = np.zeros(len(first), dtype=bool)
        if self.max_threshold is not None:
            yield ">", np.full(len(first), self.max_threshold), never
        if self.min_threshold is not None:
            yield "<", np.full(len(first), self.min_threshold), never if self.first_small else ~known
        if (factor := self.relative_change) is not None:
            yield ">", np.where(first > 0, first * factor, np.inf), never
            yield "<", first / factor, never

    def _first(
        self, window: Window, at: StepRows, table: Table
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which tensors were known before this step, and the first variance of each."""
        variance = table["std"].astype(np.float64) ** 2
        kept = window.state.setdefault("first", {}).setdefault(f"{at.rank}/{at.mode}", {})
        known, before = swapped(kept, table["name"].tolist(), {"variance": variance}, first=True)
        return known, np.where(known, before["variance"], variance)
