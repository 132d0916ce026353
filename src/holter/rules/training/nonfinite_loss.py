"""NonFiniteLoss: the loss is NaN or infinite."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Issues, Window, parameter, rule_class
from holter.rules.patterns.logged import ANY_LOSS, PatternRule

if TYPE_CHECKING:
    from holter.schema.table import Table


@rule_class
class NonFiniteLoss(PatternRule):
    """A loss is NaN or infinite; training after this step is useless."""

    reads = ("scalars",)
    severity = "critical"
    formula = "any value of a loss is not finite"
    advice = (
        "Restart from an earlier checkpoint. Lower the learning rate, clip gradients, and look at the batch"
        " of this step."
    )
    packs = ("default", "essentials", "convergence")

    names: str = parameter(ANY_LOSS, aliases=("tensor_regex",))
    """Pattern of the losses among the scalars, anywhere in their names."""

    def evaluate(self, window: Window) -> Issues:
        """Check every new value; report the first bad value of a loss, and the ranks that follow."""
        new = window.new("scalars")
        for name in sorted(filter(re.compile(self.names).search, set(new["name"].tolist()))):
            values = new.where(new["name"] == name)
            window.judged(values.rows)
            yield from self._judge(window, values, name)
        if not window.state.get("losses"):
            window.insufficient("no_input", f"no scalar matches names={self.names!r}")

    def _judge(self, window: Window, values: Table, name: str) -> Issues:
        new = {"last": dict[str, list[float]](), "first": None, "ranks": list[int]()}
        known = window.state.setdefault("losses", {}).setdefault(name, new)
        bad = ~np.isfinite(values["value"])
        if not known["ranks"]:
            # Sorted by time, then by rank, so that the first value does not depend on the order of arrival.
            ordered = values.sorted("time", "step", "rank")
            wild = np.flatnonzero(~np.isfinite(ordered["value"]))
            sound = int(wild[0]) if len(wild) else ordered.rows
            if sound < ordered.rows:
                first = next(ordered.where(slice(sound, sound + 1)).to_rows())
                known["first"] = {**first, "value": _text(first["value"])}
            before = (ordered[column][:sound].tolist() for column in ("rank", "step", "value"))
            known["last"] |= {str(rank): [step, value] for rank, step, value in zip(*before, strict=True)}
        if not bad.any():
            return
        first, wrong = known["first"], values.where(bad)
        known["ranks"] = sorted({*known["ranks"], *wrong["rank"].tolist()})
        before = known["last"].get(str(first["rank"]))
        was = f"it was {before[1]:.6g} at step {before[0]}" if before else "it was never finite"
        yield self.issue(
            f"{name} became {first['value']} at step {first['step']} on rank {first['rank']}; {was}",
            code=name,
            rank=first["rank"],
            node=first["node"] or None,
            step_start=first["step"],
            step_end=int(wrong["step"].max()),
            time_start=first["time"],
            time_end=int(wrong["time"].max()),
            evidence={
                "name": name,
                "first_value": first["value"],
                "first_step": first["step"],
                "finite_before": before is not None,
                "last_finite": {"step": before[0], "value": before[1]} if before else None,
                "ranks": known["ranks"],
            },
            count=wrong.rows,
        )


def _text(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinite" if value > 0 else "minus infinite"
