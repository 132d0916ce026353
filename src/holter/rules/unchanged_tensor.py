"""Tensors that have stopped changing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.rules import Window, parameter
from holter.rules._numbers import LR
from holter.rules._tensors import Finding, TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.rules._step_rows import StepRows

_SHOWN = ("mean", "std", "min", "max")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnchangedTensor(TensorRule):
    """A tensor is the same at several saved steps in a row."""

    reads = ("tensors", "scalars")
    description = "tensor has stopped changing"
    formula = "the last num_steps saved values are equal, or within atol + rtol x |value| where these are set"
    advice = (
        "Make sure that the optimizer holds these parameters, that gradients reach them, and that updates "
        "are not lost to rounding: raise the learning rate or keep weights in float32."
    )
    packs = ("convergence", "sagemaker")
    roles = ("weight", "embedding")
    scalars = LR
    statistics = ("min", "max", "mean", "std", "delta_max", "fingerprint")

    num_steps: int = parameter(3, low=2, unit="saved steps")
    """How many saved values in a row are compared."""
    rtol: float = parameter(0.0, classic=1e-5, low=0)
    """How much a value may differ as a share of itself and still be the same."""
    atol: float = parameter(0.0, classic=1e-8, low=0)
    """How much it may differ beyond that."""
    equal_nan: bool = parameter(True, classic=False)
    """Whether NaN is the same as NaN."""
    skip_if_lr_zero: bool = parameter(True, classic=False)
    """Do not judge while the learning rate is 0: then nothing should change."""
    include_frozen: bool = parameter(False, classic=True)
    """Also judge parameters that are frozen or unused, and steps that a loss scaler skipped."""

    def remember(self, window: Window, at: StepRows) -> None:
        """Compare with the saved step before, for those to come."""
        for row in self.rows(window, at):
            self._length(window, at, row)

    def judge(self, window: Window, at: StepRows) -> Iterator[Finding]:
        """Count for each tensor how many saved values in a row are the same."""
        still = self.skip_if_lr_zero and at.number() == 0
        for row in self.rows(window, at):
            if row["state"] and not self.include_frozen:
                continue
            length = self._length(window, at, row)
            if still or length < self.num_steps:
                continue
            yield Finding(
                tensor=row["name"], what="saved values in a row that are the same", value=float(length),
                comparator=">=", threshold=float(self.num_steps), role=row["role"],
            )  # fmt: skip

    def _length(self, window: Window, at: StepRows, row: dict[str, Any]) -> int:
        """Return how many values in a row are the same, this one included; keep it for the next."""
        known: dict[str, dict[str, Any]] = window.state.setdefault("known", {})
        mine = known.setdefault(f"{at.rank}/{at.mode}", {})
        now: dict[str, Any] = {"hash": row["fingerprint"], "length": 1}
        if not now["hash"] or self.rtol or self.atol:
            now["counts"] = [row[name] for name in ("count", "nan", "posinf", "neginf")]
            now["shown"] = [float(row[name]) for name in _SHOWN]
        before = mine.get(row["name"])
        if before is not None and self._same(before, now, row):
            now["length"] = min(before["length"] + 1, 10**9)
        mine[row["name"]] = now
        return int(now["length"])

    def _same(self, before: dict[str, Any], now: dict[str, Any], row: dict[str, Any]) -> bool:
        if row["nan"] and not self.equal_nan:
            return False
        hashed = before["hash"] and now["hash"]
        if hashed and (before["hash"] == now["hash"] or "counts" not in now):
            return bool(before["hash"] == now["hash"])
        if "counts" not in before or "counts" not in now or before["counts"] != now["counts"]:
            return False
        if math.isfinite(row["delta_max"]):
            largest = max(abs(value) for value in now["shown"][2:])
            return bool(row["delta_max"] <= self.atol + self.rtol * largest)
        # Neither a hash nor a change was taken: what its statistics cannot tell apart is the same.
        pairs = zip(before["shown"], now["shown"], strict=True)
        return all(abs(a - b) <= self.atol + self.rtol * abs(b) for a, b in pairs)
