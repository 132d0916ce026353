"""NonFiniteLoss: the loss is NaN or infinite."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from holter.rules import BadRule, Issue, Rule, Window, parameter
from holter.rules.patterns.logged import ANY_LOSS
from holter.schema.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFiniteLoss(Rule):
    """A loss is NaN or infinite; training after this step is useless."""

    reads = ("scalars",)
    severity = "critical"
    description = "the loss is NaN or infinite"
    formula = "any value of a loss is not finite"
    advice = (
        "Restart from an earlier checkpoint. Lower the learning rate, clip gradients, and look at the batch"
        " of this step."
    )
    packs = ("default", "essentials", "convergence")

    names: str = parameter(ANY_LOSS, aliases=("tensor_regex",))
    """Pattern of the losses among the scalars, anywhere in their names."""

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        try:
            re.compile(self.names)
        except re.error as error:
            raise BadRule(
                f"NonFiniteLoss: names={self.names!r} is not a regular expression: {error}"
            ) from None

    def evaluate(self, window: Window) -> Iterator[Issue]:
        """Check every new value; report the first bad value of a loss, and the ranks that follow."""
        new = window.new("scalars")
        known: dict[str, Any] = window.state.setdefault("losses", {})
        for name in sorted(set(new["name"].tolist())):
            if re.search(self.names, name) is not None:
                values = new.where(new["name"] == name)
                window.judged(values.rows)
                yield from self._judge(
                    values, name, known.setdefault(name, {"last": {}, "first": None, "ranks": []})
                )
        if not known:
            window.insufficient("no_input", f"no scalar matches names={self.names!r}")

    def _judge(self, values: Table, name: str, known: dict[str, Any]) -> Iterator[Issue]:
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
