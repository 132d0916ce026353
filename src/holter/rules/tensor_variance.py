"""Tensors whose variance is outside limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.rules import Window, parameter
from holter.rules._tensors import Finding, TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.rules._step_rows import StepRows


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorVariance(TensorRule):
    """The variance of a tensor is too large, too small, or far from what it was first."""

    description = "tensor variance outside limits"
    formula = (
        "variance > max_threshold, or < min_threshold (at the first saved step only where first_small), or "
        "changed by more than a factor relative_change"
    )
    advice = (
        "Look at the initialisation and the learning rate of the listed tensors: a variance that grows "
        "leads to overflow, one that shrinks to nothing to a layer that says nothing."
    )
    packs = ("sagemaker",)
    roles = ("weight", "embedding")
    statistics = ("std",)

    collection_names: tuple[str, ...] | None = parameter(None)
    """Collections whose tensors it looks at, with those the patterns find; weights when neither is given."""
    max_threshold: float | None = parameter(None, low=0)
    """The largest variance allowed; none = not asked."""
    min_threshold: float | None = parameter(1e-12, classic=None, low=0)
    """The smallest variance allowed; none = not asked."""
    relative_change: float | None = parameter(100.0, classic=None, above=1)
    """By which factor it may differ from that of the tensor's first saved step; none = not asked."""
    first_small: bool = parameter(False, classic=True)
    """Also tell a variance that is too small at a tensor's first saved step; adapters begin with zeros."""
    include_single: bool = parameter(False, classic=True)
    """Also judge tensors of one element, whose variance is always 0."""

    def remember(self, window: Window, at: StepRows) -> None:
        """Keep each tensor's first variance."""
        for row in self.rows(window, at):
            self._first(window, at, row)

    def judge(self, window: Window, at: StepRows) -> Iterator[Finding]:
        """Compare each tensor's variance with the limits and with its first."""
        if self.max_threshold is None and self.min_threshold is None and self.relative_change is None:
            window.insufficient("no_input", "there is no limit; set max_threshold or min_threshold")
            return
        known: dict[str, float] = window.state.setdefault("first", {})
        for row in self.rows(window, at):
            begins = self._key(at, row) not in known
            variance, first = float(row["std"]) ** 2, self._first(window, at, row)
            if row["count"] < 2 and not self.include_single:
                continue
            factor = self.relative_change
            if self.max_threshold is not None and variance > self.max_threshold:
                yield self._finding(row, variance, ">", self.max_threshold)
            elif self.min_threshold is not None and variance < self.min_threshold:
                if begins and not self.first_small:
                    continue
                yield self._finding(row, variance, "<", self.min_threshold)
            elif factor is not None and 0 < first * factor < variance:
                yield self._finding(row, variance, ">", first * factor)
            elif factor is not None and variance < first / factor:
                yield self._finding(row, variance, "<", first / factor)

    def _first(self, window: Window, at: StepRows, row: dict[str, Any]) -> float:
        known: dict[str, float] = window.state.setdefault("first", {})
        return known.setdefault(self._key(at, row), float(row["std"]) ** 2)

    @staticmethod
    def _key(at: StepRows, row: dict[str, Any]) -> str:
        return f"{at.rank}/{at.mode}/{row['name']}"

    def _finding(self, row: dict[str, Any], variance: float, comparator: str, limit: float) -> Finding:
        code = "large" if comparator == ">" else "small"
        return Finding(
            tensor=row["name"], what="variance", value=variance, comparator=comparator, threshold=limit,
            code=code, role=row["role"],
        )  # fmt: skip
