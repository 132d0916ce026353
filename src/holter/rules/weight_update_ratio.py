"""Updates that are too large or too small for the weights they change."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightUpdateRatio(TensorRule):
    """Weights change by too much, or by too little, from one saved step to the next."""

    reads = ("tensors", "scalars")
    description = "updates too large or too small compared with weights"
    formula = (
        "modern: ||w - w_before|| / (||w_before|| + epsilon) / steps between them, classic: mean(|w - "
        "w_before|) / (mean(|w_before|) + epsilon); > large_threshold (modern: not for weights that began "
        "at 0 before they were once below it) or < small_threshold"
    )
    advice = (
        "Where updates are too large lower the learning rate or clip gradients; where they are too small "
        "raise it, or find out whether gradients reach these layers. Healthy is about 0.001 a step."
    )
    packs = ("convergence", "sagemaker")
    roles = ("weight", "embedding", "bias", "norm_param")
    scalars = LR
    statistics = ("mean", "std", "abs_mean", "delta_l2", "delta_abs_mean")

    num_steps: int | None = parameter(None, low=1, unit="steps")
    """How many steps the compared values are apart at least; none = from one saved step to the next."""
    large_threshold: float = parameter(0.1, classic=10.0, above=0)
    """Above this share of the weights an update is too large."""
    small_threshold: float = parameter(1e-6, classic=1e-8, low=0)
    """Below this share of the weights an update is too small."""
    epsilon: float = parameter(1e-9, above=0)
    """Keeps the division sound for weights that are all 0."""
    per_step: bool = parameter(True, classic=False)
    """Norms, and for each step between them, instead of mean absolute values of the whole change."""
    include_1d: bool = parameter(False, classic=True)
    """Also judge biases and the parameters of norms, which are noisy."""
    lr_zero_ok: bool = parameter(True, classic=False)
    """Do not ask for larger updates while the learning rate is 0 or still rising."""
    include_frozen: bool = parameter(False, classic=True)
    """Also judge parameters that are frozen or unused, and steps that a loss scaler skipped."""

    def wants(self, name: str, role: str) -> bool:
        """Tell whether the rule looks at a tensor."""
        vector = role in ("bias", "norm_param") or name.endswith("bias")
        return TensorRule.wants(self, name, role) and (self.include_1d or not vector)

    def remember(self, window: Window, at: StepRows) -> None:
        """Keep the size of each weight."""
        for row in self.rows(window, at):
            self._swapped(window, at, row)

    def judge(self, window: Window, at: StepRows) -> Iterator[Finding]:
        """Compare each change with the weight before it."""
        numbers = at.numbers
        gentle = numbers is not None and (numbers.rises(at.rank, at.step) or at.number() == 0)
        for row in self.rows(window, at):
            before = self._swapped(window, at, row)
            if before is None or (row["state"] and not self.include_frozen):
                continue
            step, size = before
            apart = at.step - step
            if apart < 1:
                continue
            if self.num_steps is not None and apart < self.num_steps:
                text = f"changes are known from one saved step to the next; save every {self.num_steps} steps"
                window.insufficient("too_few_points", text, have=apart, need=self.num_steps)
                continue
            change = float(row["delta_l2"] if self.per_step else row["delta_abs_mean"])
            ratio = change / (size + self.epsilon) / (apart if self.per_step else 1)
            if ratio > self.large_threshold:
                if self.per_step and self._from_zero(window, at, row, size):
                    continue
                yield self._finding(row, ratio, ">", self.large_threshold, step)
                continue
            window.state.get("growing", {}).pop(f"{at.rank}/{row['name']}", None)
            if ratio < self.small_threshold and not (gentle and self.lr_zero_ok):
                yield self._finding(row, ratio, "<", self.small_threshold, step)

    def _from_zero(self, window: Window, at: StepRows, row: dict[str, Any], size: float) -> bool:
        """Tell whether a weight began at zero, as an adapter's does, and has not found its size yet."""
        growing: dict[str, bool] = window.state.setdefault("growing", {})
        key = f"{at.rank}/{row['name']}"
        if size == 0:
            growing[key] = True
        return key in growing

    def _swapped(self, window: Window, at: StepRows, row: dict[str, Any]) -> tuple[int, float] | None:
        """Keep a weight's size, and return step and size of the saved step before."""
        known: dict[str, list[Any]] = window.state.setdefault("known", {})
        key = f"{at.rank}/{row['name']}"
        before = known.get(key)
        size = math.sqrt(row["finite"]) * math.hypot(row["mean"], row["std"])
        known[key] = [at.step, size if self.per_step else float(row["abs_mean"])]
        return None if before is None else (int(before[0]), float(before[1]))

    def _finding(
        self, row: dict[str, Any], ratio: float, comparator: str, limit: float, since: int
    ) -> Finding:
        return Finding(
            tensor=row["name"],
            what="update ratio" + (" per step" if self.per_step else ""),
            value=ratio,
            comparator=comparator,
            threshold=limit,
            code="large" if comparator == ">" else "small",
            role=row["role"],
            more={"compared_with_step": since},
        )
