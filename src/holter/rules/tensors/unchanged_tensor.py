"""UnchangedTensor: a tensor no longer changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.rules import Table, Window, parameter, rule_class
from holter.rules.patterns.latest import LR
from holter.rules.patterns.tensor_columns import swapped
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from holter.rules.engine.step_rows import StepRows

_COUNTS = ("count", "nan", "posinf", "neginf")
_SHOWN = ("mean", "std", "min", "max")


@rule_class
class UnchangedTensor(TensorRule):
    """A tensor is unchanged at several saved steps in a row."""

    reads = ("tensors", "scalars")
    formula = "the last num_steps saved values are equal, or within atol + rtol x |value| when these are set"
    advice = (
        "Check that the optimizer holds these parameters, that gradients reach them, and that rounding does"
        " not lose their updates: raise the learning rate or keep weights in float32."
    )
    packs = ("convergence", "sagemaker")
    roles = ("weight", "embedding")
    scalars = LR
    statistics = ("min", "max", "mean", "std", "delta_max", "fingerprint")

    num_steps: int = parameter(3, low=2, unit="saved steps")
    """Number of saved values in a row that are compared."""
    rtol: float = parameter(0.0, classic=1e-5, low=0)
    """Difference, as a share of the value, that counts as equal."""
    atol: float = parameter(0.0, classic=1e-8, low=0)
    """Difference in addition to rtol that counts as equal."""
    equal_nan: bool = parameter(True, classic=False)
    """Whether NaN equals NaN."""
    skip_if_lr_zero: bool = parameter(True, classic=False)
    """Do not judge while the learning rate is 0, because tensors should not change then."""
    include_frozen: bool = parameter(False, classic=True)
    """Also judge frozen and unused parameters, and steps that a loss scaler skipped."""

    def remember(self, window: Window, at: StepRows) -> None:
        """Compare with the previous saved step, for later steps."""
        self._lengths(window, at, self.newest(self.judgeable(window, at)))

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Count the equal saved values in a row of each tensor."""
        table = self.newest(self.judgeable(window, at))
        # A frozen tensor starts to count when it is no longer frozen.
        table = table if self.include_frozen else table.where(table["state"] == "")
        length = self._lengths(window, at, table)
        reported = length >= self.num_steps
        if not reported.any() or (self.skip_if_lr_zero and at.number() == 0):
            return
        for row in self.listed(table.where(reported), length=length[reported]):
            yield TensorFinding(
                tensor=row["name"], what="saved values in a row that are the same",
                value=float(row["length"]), comparator=">=", threshold=float(self.num_steps),
                role=row["role"],
            )  # fmt: skip

    def _lengths(self, window: Window, at: StepRows, table: Table) -> NDArray[np.int64]:
        """Return the number of equal values in a row, including these, and keep it."""
        kept = window.state.setdefault("known", {}).setdefault(f"{at.rank}/{at.mode}", {})
        now = {"hash": table["fingerprint"].astype(np.int64)}
        if self.rtol or self.atol or not now["hash"].all():
            now |= {name: table[name] for name in _COUNTS}
            now |= {name: table[name].astype(np.float64) for name in _SHOWN}
        names = table["name"].tolist()
        old, before = swapped(kept, names, now)
        same = old & self._same(before, now, table)
        if not self.equal_nan:
            same &= table["nan"] == 0
        lengths = window.state.setdefault("lengths", {}).setdefault(f"{at.rank}/{at.mode}", {})
        run: NDArray[np.int64] = np.array([lengths.get(name, 1) for name in names], dtype=np.int64)
        run = np.where(same, np.minimum(run + 1, 10**9), 1)
        for name, length in zip(names, run.tolist(), strict=True):
            if length > 1:
                lengths[name] = length
            else:
                lengths.pop(name, None)
        return run

    def _same(
        self, before: Mapping[str, NDArray[Any]], now: Mapping[str, NDArray[Any]], table: Table
    ) -> NDArray[np.bool_]:
        exact = not (self.rtol or self.atol)
        hashed = (before["hash"] != 0) & (now["hash"] != 0)
        same: NDArray[np.bool_] = hashed & (before["hash"] == now["hash"])
        if "count" not in now:
            return same
        # Kept hashes say nothing about tensors without a hash.
        comparable = (before["hash"] == 0) & (now["hash"] == 0) if exact else ~same
        for name in _COUNTS:
            comparable &= before[name] == now[name]
        change, largest = table["delta_max"].astype(np.float64), np.zeros(table.rows)
        alike = np.full(table.rows, True)
        for i, name in enumerate(_SHOWN):
            a, b = before[name], now[name]
            alike &= np.abs(a - b) <= self.atol + self.rtol * np.abs(b)
            largest = np.maximum(largest, np.abs(b)) if i >= 2 else largest
        # Without a hash and a change, tensors with equal statistics count as equal.
        near = np.where(np.isfinite(change), change <= self.atol + self.rtol * largest, alike)
        return np.asarray(same | (comparable & near))
