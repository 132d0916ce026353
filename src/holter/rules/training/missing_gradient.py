"""MissingGradient: trainable parameters receive no gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.engine.complete_steps import complete_steps
from holter.rules.patterns.layers import ADAPTER, EXPERT, listed, new_kinds, parameters_of

if TYPE_CHECKING:
    from holter.schema.table import Table

_COLUMNS = ("name", "state", "count", "zeros")
_LISTED = 50


@rule_class
class MissingGradient(Rule):
    """Trainable parameters whose gradient is absent or exactly zero, step after step, on every rank."""

    reads = ("tensors",)
    formula = (
        "gradient None or all zero at `steps` saved optimizer steps in a row; experts are ignored; a note "
        "for the base model under adapters"
    )
    advice = (
        "Look for a detached graph, an unused branch, or wrong freezing. Freeze parameters that should not "
        "train with requires_grad=False."
    )
    packs = ("convergence",)

    steps: int = parameter(20, low=1, unit="saved steps")
    """Number of saved steps in a row without a gradient; large enough for randomly dropped branches."""

    def evaluate(self, window: Window) -> Issues:
        """Count each parameter's steps without a gradient; report each parameter that reaches the limit."""
        state, new = window.state, window.new("tensors")
        rows = new.where(new_kinds(window)[1] & (new["state"] != "skipped"))
        for one in complete_steps(rows, state.setdefault("rows", {}), _COLUMNS, ended=window.job.ended):
            for step, at in one.steps():
                window.judged(1)
                yield from self._step(window, step, at)
        if "without" not in state:
            window.insufficient("no_input", "no gradient is recorded; use --save gradients@100")

    def _step(self, window: Window, step: int, rows: Table) -> Issues:
        without: dict[str, list[int]] = window.state.setdefault("without", {})
        known: dict[str, bool] = window.state.setdefault("adapters", {"any": False})
        absent = (rows["state"] == "unused") | ((rows["count"] > 0) & (rows["zeros"] == rows["count"]))
        trainable = rows["state"] != "frozen"
        got = set(parameters_of(rows["name"][trainable & ~absent].tolist()))
        missing = set(parameters_of(rows["name"][trainable & absent].tolist())) - got
        known["any"] = known["any"] or any(ADAPTER.search(name) for name in got | missing)
        for name in got:
            without.pop(name, None)
        grown = set()
        for name in sorted(missing):
            if EXPERT.search(name) is None:
                since = without.setdefault(name, [step, 0])
                since[1] += 1
                if since[1] == self.steps:
                    grown.add("base" if known["any"] and not ADAPTER.search(name) else "missing")
        for code in sorted(grown):
            base = code == "base"
            names = [
                name
                for name, (_, count) in sorted(without.items())
                if count >= self.steps and (known["any"] and not ADAPTER.search(name)) == base
            ]
            start = min(without[name][0] for name in names)
            yield self.issue(
                f"{len(names)} trainable parameters have received no gradient since step "
                f"{start}: {listed(names)}",
                code=code,
                severity="info" if base else "warning",
                step_start=start,
                step_end=step,
                evidence={"parameters": names[:_LISTED], "count": len(names), "saved_steps": self.steps},
            )
