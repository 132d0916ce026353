"""PoorWeightInitialization: layers start at very different scales, or the loss does not start to fall."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Window, parameter, rule_class
from holter.rules.engine.table_json import column
from holter.rules.patterns.collections import belongs, has_role, matches
from holter.rules.patterns.latest import LOSS
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.rules.engine.step_rows import StepRows
    from holter.schema.table import Row, Table

_INPUTS = ("act_in:",)


@rule_class
class PoorWeightInitialization(TensorRule):
    """At the start, layer scales differ much, gradients are nearly equal, or the loss does not fall."""

    reads = ("tensors", "scalars")
    formula = (
        "(a) largest / smallest variance of activation inputs > threshold; (b) q95 - q05 of a gradient < "
        "distribution_range; (c) no new best loss for `patience` saved steps; modern: c and (a or b), "
        "classic: any"
    )
    advice = (
        "Initialise the listed layers so that outputs keep the variance of their inputs (Kaiming or "
        "Xavier), add normalisation, or warm up the learning rate."
    )
    packs = ("sagemaker",)
    statistics = ("mean", "std", "q05", "q95")
    scalars = LOSS
    save = "activations@10 --save gradients@10"

    tensor_regex: tuple[str, ...] | None = parameter(
        None, classic=(".*relu_input",), aliases=("activation_inputs_regex",)
    )
    """Patterns that find the inputs of activations, whose variances are compared; none = by role."""
    mode: tuple[str, ...] | None = parameter(("train",))
    """Only these of train, eval, predict, global; global means any."""
    threshold: float = parameter(100.0, classic=10.0, above=0)
    """Largest allowed ratio of the largest variance to the smallest."""
    distribution_range: float | None = parameter(None, classic=0.001, above=0)
    """Smallest allowed range of 90 % of a gradient's elements; none = not checked."""
    patience: int = parameter(10, classic=5, low=1, unit="saved steps")
    """Saved steps without a new best loss that are allowed."""
    steps: int = parameter(50, classic=10, low=1, unit="saved steps")
    """Number of saved steps that are judged, from the first one on."""
    combine: str = parameter("loss_and_scale", classic="any", choices=("loss_and_scale", "any"))
    """Whether both the loss and the scales must be bad, or any one of them."""

    def wants(self, name: str, role: str) -> bool:
        """Return whether a tensor is an activation's input, a weight, a gradient or a loss."""
        if matches(self.exclude_regex, name):
            return False
        return self._input(name, role) or any(
            belongs(c, name, role) for c in ("weights", "gradients", "losses", *(self.collection_names or ()))
        )

    def _input(self, name: str, role: str) -> bool:
        return has_role(role, _INPUTS) if self.tensor_regex is None else matches(self.tensor_regex, name)

    def fresh(self, window: Window) -> dict[str, Table]:
        """Drop the ranks whose first steps are all judged."""
        new = window.new("tensors")
        first = window.state.get("first", {})
        done = [int(rank) for rank, kept in first.items() if kept["steps"] >= self.steps]
        if done and (over := np.isin(new["rank"], done)).any():
            new = new.where(~over)
            waiting = window.state.get("waiting", {})
            if np.isin(column(waiting.get("tensors"), "rank", np.int64), done).all():
                waiting.pop("tensors", None)
        return {"tensors": new}

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Judge one of the first saved steps by its scales and by the loss up to it."""
        state = window.state.setdefault("first", {}).setdefault(str(at.rank), {"steps": 0, "bad": 0})
        if state["steps"] >= self.steps:
            return
        state["steps"] += 1
        rows = self.rows(window, at)
        scales = [*self._variances(rows), *self._spreads(rows)]
        stuck = self._stuck(rows, at, state)
        if self.combine == "any":
            yield from scales + stuck
        elif stuck and scales:
            yield from scales

    def _variances(self, rows: list[Row]) -> list[TensorFinding]:
        inputs = [r for r in rows if self._input(r["name"], r["role"])]
        inputs = inputs or [
            r for r in rows if belongs("weights", r["name"], r["role"]) and r["role"] != "grad"
        ]
        known = sorted((float(r["std"]) ** 2, r["name"]) for r in inputs if math.isfinite(r["std"]))
        if len(known) < 2:
            return []
        (least, small), (most, large) = known[0], known[-1]
        ratio = most / least if least > 0 else math.inf
        if ratio <= self.threshold:
            return []
        more = {"smallest_in": small, "smallest": least, "largest": most}
        what = f"variance, as a multiple of that of {small},"
        return [TensorFinding(large, what, ratio, ">", self.threshold, code="scales", more=more)]

    def _spreads(self, rows: list[Row]) -> list[TensorFinding]:
        what, limit = "spread of 90 % of the elements", self.distribution_range or 0.0
        return [
            TensorFinding(row["name"], what, spread, "<", limit, code="gradients", role=row["role"])
            for row in rows
            if belongs("gradients", row["name"], row["role"])
            and (spread := float(row["q95"] - row["q05"])) < limit
        ]

    def _stuck(self, rows: list[Row], at: StepRows, state: dict[str, float]) -> list[TensorFinding]:
        losses = [float(r["mean"]) for r in rows if belongs("losses", r["name"], r["role"])]
        loss = next((value for value in losses if math.isfinite(value)), at.number())
        if loss is None:
            return []
        if "best" not in state or loss < state["best"]:
            state["best"], state["bad"] = loss, 0
            return []
        state["bad"] += 1
        if state["bad"] < self.patience:
            return []
        what, limit, more = "saved steps without a new best", float(self.patience), {"best": state["best"]}
        bad = float(state["bad"])
        return [TensorFinding("loss", what, bad, ">=", limit, code="loss", role="loss", more=more)]
