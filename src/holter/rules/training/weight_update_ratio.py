"""WeightUpdateRatio: weight updates are too large or too small relative to the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.rules import Window, parameter, rule_class
from holter.rules.patterns.latest import LR
from holter.rules.patterns.tensor_columns import swapped
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.rules.engine.step_rows import StepRows
    from holter.schema.table import Row, Table


@rule_class
class WeightUpdateRatio(TensorRule):
    """Weights change too much or too little from one saved step to the next."""

    reads = ("tensors", "scalars")
    formula = (
        "modern: ||w - w_before|| / (||w_before|| + epsilon) per step; classic: mean(|w - w_before|) / "
        "(mean(|w_before|) + epsilon); > large_threshold (modern: not for weights that start at 0, until "
        "the ratio was below it once) or < small_threshold"
    )
    advice = (
        "If updates are too large, lower the learning rate or clip gradients. If they are too small, raise "
        "it, or find out whether gradients reach these layers. A healthy ratio is about 0.001 per step."
    )
    packs = ("convergence", "sagemaker")
    roles = ("weight", "embedding", "bias", "norm_param")
    scalars = LR
    statistics = ("mean", "std", "abs_mean", "delta_l2", "delta_abs_mean")

    num_steps: int | None = parameter(None, low=1, unit="steps")
    """Minimum number of steps between the compared values; none = consecutive saved steps."""
    large_threshold: float = parameter(0.1, classic=10.0, above=0)
    """An update above this share of the weights is too large."""
    small_threshold: float = parameter(1e-6, classic=1e-8, low=0)
    """An update below this share of the weights is too small."""
    epsilon: float = parameter(1e-9, above=0)
    """Avoids a division by zero for weights that are all 0."""
    per_step: bool = parameter(True, classic=False)
    """Compare norms per step, instead of mean absolute values over the whole change."""
    include_1d: bool = parameter(False, classic=True)
    """Also judge biases and parameters of normalisation layers, which are noisy."""
    lr_zero_ok: bool = parameter(True, classic=False)
    """Do not report small updates while the learning rate is 0 or still rising."""
    include_frozen: bool = parameter(False, classic=True)
    """Also judge frozen and unused parameters, and steps that a loss scaler skipped."""

    def wants(self, name: str, role: str) -> bool:
        """Return whether the rule judges a tensor."""
        vector = role in ("bias", "norm_param") or name.endswith("bias")
        return TensorRule.wants(self, name, role) and (self.include_1d or not vector)

    def remember(self, window: Window, at: StepRows) -> None:
        """Keep the size of each weight."""
        self._before(window, at, self.newest(self.judgeable(window, at)))

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Compare each change with the weight before it."""
        table = self.newest(self.judgeable(window, at))
        known, before = self._before(window, at, table)
        apart, size = at.step - before["step"], before["size"]
        # A change comes from the update after the previous saved step; without an update it is not judged.
        updated = (table["state"] == "") & (before["held"] == 0)
        asked = known & (apart >= 1) & (self.include_frozen | updated)
        if self.num_steps is not None:
            if (few := asked & (apart < self.num_steps)).any():
                text = f"changes are known from one saved step to the next; save every {self.num_steps} steps"
                have = int(apart[few].min())
                window.insufficient("too_few_points", text, have=have, need=self.num_steps)
            asked &= apart >= self.num_steps
        change = table["delta_l2" if self.per_step else "delta_abs_mean"].astype(np.float64)
        ratio = change / (size + self.epsilon) / np.where(asked & self.per_step, apart, 1)
        large = asked & (ratio > self.large_threshold)
        small = asked & ~large & (ratio < self.small_threshold) & (not self._gentle(at))
        self._forget_growth(window, at, table["name"][asked & ~large].tolist())
        reported = large | small
        columns = {
            "ratio": ratio[reported],
            "large": large[reported],
            "size": size[reported],
            "since": before["step"][reported],
        }
        for row in self.listed(table.where(reported), **columns) if reported.any() else ():
            if not row["large"]:
                yield self._finding(row, "<", self.small_threshold)
            elif not (self.per_step and self._from_zero(window, at, row)):
                yield self._finding(row, ">", self.large_threshold)

    def _gentle(self, at: StepRows) -> bool:
        """Return whether updates may be small: the learning rate is 0 or still rises."""
        lr = at.logged if self.lr_zero_ok else None
        return lr is not None and (lr.rises(at.rank, at.step) or at.number() == 0)

    def _from_zero(self, window: Window, at: StepRows, row: Row) -> bool:
        """Return whether a weight started at zero, like an adapter's, and still grows to its size."""
        growing: dict[str, bool] = window.state.setdefault("growing", {})
        key = f"{at.rank}/{row['name']}"
        if row["size"] == 0:
            growing[key] = True
        return key in growing

    def _forget_growth(self, window: Window, at: StepRows, names: list[str]) -> None:
        """Record that weights have reached their size."""
        if growing := window.state.get("growing"):
            for name in names:
                growing.pop(f"{at.rank}/{name}", None)

    def _before(
        self, window: Window, at: StepRows, table: Table
    ) -> tuple[NDArray[np.bool_], dict[str, NDArray[Any]]]:
        """Keep the weights' sizes, and return step and size of the previous saved step."""
        mean, std = (table[name].astype(np.float64) for name in ("mean", "std"))
        size = np.sqrt(table["finite"]) * np.hypot(mean, std) if self.per_step else table["abs_mean"]
        now = {
            "size": size.astype(np.float64),
            "step": np.full(table.rows, at.step, dtype=np.int64),
            "held": (table["state"] != "").astype(np.int8),
        }
        kept = window.state.setdefault("known", {}).setdefault(str(at.rank), {})
        return swapped(kept, table["name"].tolist(), now)

    def _finding(self, row: Row, comparator: str, limit: float) -> TensorFinding:
        what = "update ratio per step" if self.per_step else "update ratio"
        code, since = "large" if row["large"] else "small", {"compared_with_step": row["since"]}
        return TensorFinding(
            row["name"], what, row["ratio"], comparator, limit, code=code, role=row["role"], more=since
        )
