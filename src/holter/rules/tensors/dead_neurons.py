"""DeadNeurons: units of a layer never activate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.grouping import groups
from holter.rules import Issues, Rule, Table, Window, parameter, rule_class
from holter.rules.engine.levels import grade

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


_HOLD, _ROWS = 3, 4
"""Number of judgements in a row that must agree; minimum number of saved steps per judgement."""


@rule_class
class DeadNeurons(Rule):
    """Units or channels were inactive in all of the last thousands of samples."""

    reads = ("tensor_values",)
    formula = (
        "share of a layer's units that are active in 0 of >= min_samples samples of >= 4 saved steps, over "
        "all ranks, >= info, warn, or critical at 3 judgements in a row"
    )
    advice = "Lower the learning rate, use leaky ReLU or GELU, and check the initialisation and the biases."
    packs = ("convergence",)

    info: float = parameter(0.10, low=0, high=1)
    """Share of dead units from which the rule reports a note."""
    warn: float = parameter(0.30, low=0, high=1)
    """Share of dead units that is a warning."""
    critical: float = parameter(0.60, low=0, high=1)
    """Share of dead units that is critical."""
    min_samples: int = parameter(4096, low=1, unit="samples")
    """Samples needed; a unit active in 1 of 1,000 samples seems dead with probability 1.7 % at 4,096."""
    min_units: int = parameter(16, low=1)
    """Layers with fewer units are not judged."""

    def evaluate(self, window: Window) -> Issues:
        """Count each layer's samples; judge when they suffice, then start again."""
        state, new = window.state, window.new("tensor_values")
        rows = new.where(np.isin(new["kind"].astype(str), ("active", "samples")) & (new["mode"] != "predict"))
        for row in _layers(rows):
            yield from self._add(window, *row)
        if "layers" not in state:
            window.insufficient("no_input", "no activity of units is recorded; use --save activations@100")
        elif not window.points:
            most = max(one["samples"] for one in state["layers"].values())
            window.too_few("too few samples yet", most, self.min_samples)

    def _add(
        self, window: Window, name: str, step: int, samples: float, active: NDArray[np.float64]
    ) -> Issues:
        layers = window.state.setdefault("layers", {})
        one = layers.setdefault(name, {"samples": 0.0, "rows": 0, "units": 0, "silent": [], "held": []})
        if one["units"] != len(active):
            one.update(samples=0.0, rows=0, units=len(active), silent=list(range(len(active))), start=step)
        if samples <= 0 or not len(active):
            return
        one["samples"] += samples
        one["rows"] += 1
        one["silent"] = [unit for unit in one["silent"] if not active[unit] > 0]
        if one["samples"] < self.min_samples or one["rows"] < _ROWS or one["units"] < self.min_units:
            return
        window.judged(1)
        dead, one["silent"] = one["silent"], list(range(one["units"]))
        one["held"] = [*one["held"], len(dead) / one["units"]][-_HOLD:]
        start, one["start"] = one["start"], step
        counted, one["samples"], one["rows"] = one["samples"], 0.0, 0
        share = min(one["held"])
        if len(one["held"]) < _HOLD or share < self.info:
            return
        severity = grade(share, info=self.info, warning=self.warn, critical=self.critical) or "info"
        yield self.issue(
            f"{len(dead)} of {one['units']} units of {name} were never active in {counted:.0f} samples",
            severity=severity,
            tensor=name,
            step_start=start,
            step_end=step,
            evidence={
                "dead_share": len(dead) / one["units"],
                "least_share_of_3": share,
                "units": one["units"],
                "samples": counted,
                "dead": dead[:100],
            },
        )


def _layers(rows: Table) -> Iterator[tuple[str, int, float, NDArray[np.float64]]]:
    """Yield each layer's counts at each moment it was saved: name, step, samples, active samples per unit."""
    rows = rows.sorted("time", "rank", "name", "position", "value")
    for (_, _, name), where in groups(rows["time"], rows["rank"], rows["name"]).items():
        at = rows.where(where)
        total = at["kind"] == "samples"
        if total.any():
            yield name, int(at["step"][0]), float(at["value"][total][0]), at["value"][~total]
