"""OptimizerNotStepping: optimizer steps do not change the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.rules import Issues, Rule, Severity, Window, parameter, rule_class
from holter.rules.engine.complete_steps import complete_steps
from holter.rules.patterns.collections import tested
from holter.rules.patterns.layers import EXPERT, listed, new_kinds, parameters_of
from holter.rules.patterns.logged import is_rate, skips, stacked
from holter.rules.patterns.tensor_columns import ByName, swapped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table

_COLUMNS = ("kind", "name", "value", "fingerprint")
_ZERO_STEPS, _JUMP, _LISTED = 100, 5.0, 50
_RESTS = 10
"""Number of saved steps after which an unchanged parameter is reported."""
_KNOWN = {"since": np.int64, "still": np.int64, "changed": np.bool_, "gradient": np.int8}
"""Of a parameter: its first step, saved steps without a change, whether it ever changed; whether its last
gradient was zero: -1, or not: 1, or not seen: 0."""


@rule_class
class OptimizerNotStepping(Rule):
    """Parameters do not change although the learning rate is not zero, or the learning rate is wrong."""

    reads = ("tensors", "scalars", "spans/skipped")
    formula = (
        "every parameter unchanged while lr > 0 and the step is not skipped, at two or more saved steps: "
        "for `warn` steps: warning, for `critical` steps: critical. Parameters with a gradient unchanged at"
        " 10 saved steps, lr = 0 for 100 steps, or lr 5 x higher than ever in one step: warning"
    )
    advice = (
        "Check that optimizer.step() is called, that the optimizer holds the parameters of this model, and "
        "the schedule of the learning rate."
    )
    packs = ("convergence",)

    warn: int = parameter(10, low=1, unit="steps")
    """Number of steps without any change that is a warning."""
    critical: int = parameter(100, low=1, unit="steps")
    """Number of steps without any change that is critical."""
    start_steps: int = parameter(100, low=0, unit="steps")
    """First steps, in which the learning rate is not judged."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each saved step, and each logged learning rate."""
        state = window.state
        for one in complete_steps(
            _rows(window), state.setdefault("rows", {}), _COLUMNS, ended=window.job.ended
        ):
            if state.setdefault("attempt", one.attempt) != one.attempt:
                state.update(attempt=one.attempt, still=None, last=None, rate=None)
            for step, rows in one.steps():
                window.judged(1)
                kinds = rows["kind"]
                rates = rows["value"][kinds == "lr"]
                if (rates := rates[np.isfinite(rates)]).size:
                    yield from self._rate(window, step, float(rates.max()))
                if (kinds == "parameter").any() and not (kinds == "skipped").any():
                    yield from self._change(window, step, rows)
        if "first_rate" not in state and "known" not in state:
            text = "no learning rate and no change of parameters is recorded; use --save weights@100"
            window.insufficient("no_input", text)

    def _change(self, window: Window, step: int, rows: Table) -> Issues:
        state = window.state
        known = ByName(state.setdefault("known", {}), _KNOWN)
        gradients = rows["kind"] == "gradient"
        where = self._places(known, step, parameters_of(rows["name"][gradients].tolist()))
        known.columns["gradient"][where] = np.where(rows["value"][gradients] > 0, 1, -1)
        mine = rows.where(rows["kind"] == "parameter")
        names = mine["name"].tolist()
        places = self._places(known, step, names)
        # Ranks hold replicas or shards under one name; each row is compared with the previous one.
        of_ranks = [f"{rank}/{name}" for rank, name in zip(mine["rank"].tolist(), names, strict=True)]
        prints, change = mine["fingerprint"], mine["value"]
        _, before = swapped(state.setdefault("prints", {}), of_ranks, {"print": prints})
        by_change, by_print = np.isfinite(change), (before["print"] != 0) & (prints != 0)
        changed = np.where(by_change, change > 0, before["print"] != prints)
        seen = by_change | by_print
        moved = np.zeros(len(known.names), dtype=bool)
        moved[places[seen & changed]] = True
        judged = np.unique(places[seen])
        last, state["last"] = state.get("last"), step
        if len(judged) and not moved.any():
            yield from self._nothing(window, step, last, len(judged))
        elif len(judged):
            state["still"] = None
            yield from self._some(step, judged, moved, known)
        known.keep()

    def _places(self, known: ByName, step: int, names: list[str]) -> NDArray[np.int64]:
        places, old = known.where(names)
        known.columns["since"][places[~old]] = step
        return places

    def _nothing(self, window: Window, step: int, last: int | None, count: int) -> Issues:
        state = window.state
        if state.get("rate") == 0:
            state["still"] = None
            return
        began = step - 1 if last is None else last
        still = state["still"] = state.get("still") or {"since": began, "rows": 0}
        still["rows"] += 1
        steps = step - still["since"]
        severity: Severity | None = None
        if still["rows"] >= 2 and steps >= self.warn:
            severity = "critical" if steps >= self.critical else "warning"
        if severity and severity != still.get("reported"):
            still["reported"] = severity
            yield self.issue(
                f"all {count} parameters have stayed unchanged for {steps} steps",
                code="nothing_changes",
                severity=severity,
                step_start=still["since"],
                step_end=step,
                evidence={"steps": steps, "saved_steps": still["rows"], "lr": state.get("rate")},
            )

    def _some(self, step: int, judged: NDArray[np.int64], moved: NDArray[np.bool_], known: ByName) -> Issues:
        changed, still, gradient = (known.columns[name] for name in ("changed", "still", "gradient"))
        changed |= moved
        rests = judged[~moved[judged]]
        still[rests[gradient[rests] >= 0]] += 1
        if not (still[rests] == _RESTS).any():
            return
        never = np.flatnonzero((still >= _RESTS) & ~changed & (gradient >= 0)).tolist()
        never = [i for i in never if not EXPERT.search(known.names[i])]
        if not never:
            return
        names = sorted(known.names[i] for i in never)
        sure = bool((gradient[never] > 0).any())
        yield self.issue(
            f"{len(names)} trainable parameters never change while others do: {listed(names)}",
            code="params_not_in_optimizer",
            severity="warning" if sure else "info",
            step_start=int(known.columns["since"][never].min()),
            step_end=step,
            evidence={"parameters": names[:_LISTED], "count": len(names), "gradients_seen": sure},
        )

    def _rate(self, window: Window, step: int, rate: float) -> Issues:
        state = window.state
        first = state.setdefault("first_rate", step)
        highest, state["rate"] = state.get("highest", 0.0), rate
        state["highest"] = max(highest, rate)
        if step - first >= self.start_steps and highest > 0 and rate > _JUMP * highest:
            yield self.issue(
                f"the learning rate jumped to {rate:.3g} at step {step}; the highest before "
                f"was {highest:.3g}",
                code="lr_jump",
                step_start=step,
                step_end=step,
                evidence={"lr": rate, "highest_before": highest},
            )
        if rate != 0:
            state["zero"] = None
            return
        zero = state["zero"] = state.get("zero") or {"since": step, "rows": 0}
        zero["rows"] += 1
        if zero["rows"] >= 3 and step - zero["since"] >= _ZERO_STEPS and not zero.get("reported"):
            zero["reported"] = True
            yield self.issue(
                f"the learning rate has been 0 since step {zero['since']}: the parameters no longer change",
                code="lr_zero",
                step_start=zero["since"],
                step_end=step,
                evidence={"highest_lr": state["highest"]},
            )


def _rows(window: Window) -> Table:
    """Collect parameter changes, gradient sizes, learning rates, and skipped steps."""
    tensors, scalars, skipped = window.new("tensors"), window.new("scalars"), skips(window)
    parameters, graded = new_kinds(window)
    gradients = tensors.where(graded & (tensors["state"] == ""))
    own = tensors.where(parameters & (tensors["state"] == ""))
    by_scaler = tensors.where(tensors["state"] == "skipped")
    lr = scalars.where(tested(scalars["name"], is_rate))
    parts: list[tuple[str, Table, dict[str, NDArray[Any]]]] = [
        ("parameter", own, {"value": own["delta_l2"], "fingerprint": own["fingerprint"]}),
        ("gradient", gradients, {"value": gradients["abs_mean"]}),
        ("lr", lr, {"value": lr["value"]}),
        ("skipped", skipped, {}),
        ("skipped", by_scaler, {}),
    ]
    return stacked(parts, value=np.float64, fingerprint=np.int64)
