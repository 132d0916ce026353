"""`UnitRule`: the base of rules about units of layers that are hardly ever active."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.rules import Window, parameter, rule_class
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensor_values import (
    UnitCounts,
    contents,
    gathered,
    shaped,
    units_counted,
    units_within,
)
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from holter.rules.engine.step_rows import StepRows


@rule_class
class UnitRule(TensorRule):
    """Judges layers by how often their units are active."""

    kinds = ("value", "shape", "active", "samples")

    threshold_inactivity: float = parameter(1.0, low=0, high=100, unit="%")
    """A unit that is active in a smaller share of the samples counts."""
    threshold_layer: float = parameter(30.0, classic=50.0, low=0, high=100, unit="%")
    """Share of such units above which a layer is reported."""
    min_samples: int = parameter(256, classic=0, low=0)
    """Samples of each unit that are gathered, over saved steps, before a layer is judged; 0 = each step
    alone."""
    node: str = parameter("channel", classic="position", choices=("channel", "position"))
    """What a unit is: a channel or feature, axis 1; or each position after the batch's axis."""

    def limits(self, name: str, role: str) -> tuple[float, float] | None:
        """Return the limits between which a unit of this tensor is active, or None if they are unknown."""
        raise NotImplementedError

    def counted(self, name: str, role: str) -> bool:
        """Return whether the recorder's counts of active units fit the rule."""
        return True

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Count how often the units of each layer are active, and judge layers with enough samples."""
        values, kept = contents(at.tables["tensor_values"]), window.state.setdefault("units", {})
        skipped = 0
        for row in self.rows(window, at):
            name, role = row["name"], row["role"]
            units = self._units(values.get(name, {}), name, role)
            if units is None:
                skipped += 1
                at.judged.discard(name)
                continue
            # A layer that is recorded several times per step counts once; the key separates the modes.
            enough = gathered(kept, f"{at.rank}/{at.mode}/{name}", units, self.min_samples)
            if enough is None:
                at.judged.discard(name)
            else:
                yield from self._judged(enough, name, role)
        if skipped:
            window.points = max(0, window.points - skipped)
            text = f"of {skipped} layers neither values with their shape nor fitting counts of active units"
            window.insufficient("shape_missing", f"{text} were recorded; run with --save {self.save}")

    def _units(self, kinds: dict[str, NDArray[np.float64]], name: str, role: str) -> UnitCounts | None:
        limits, tensor = self.limits(name, role), shaped(kinds)
        if limits is None:
            return None
        if tensor is not None and (units := units_within(tensor, *limits, self.node)) is not None:
            return units
        return units_counted(kinds) if self.counted(name, role) else None

    def _judged(self, units: UnitCounts, name: str, role: str) -> Iterator[TensorFinding]:
        seldom = 100.0 * units.active / units.samples < self.threshold_inactivity
        share = 100.0 * float(seldom.sum()) / len(seldom)
        if share > self.threshold_layer:
            more = {"units": len(seldom), "inactive_units": int(seldom.sum()), "samples": units.samples}
            what, limit = "share of units that are hardly ever active", self.threshold_layer
            yield TensorFinding(name, what, share, ">", limit, unit=" %", role=role, more=more)
