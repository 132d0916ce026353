"""NonFiniteGradient: gradients are NaN or infinite."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.tensors.shards import joined, whole
from holter.analysis.verdict.evidence import counted
from holter.rules import Issues, Window, parameter, rule_class
from holter.rules.engine.complete_steps import complete_steps
from holter.rules.patterns.logged import MAIN_LOSS, PatternRule, skips, trained
from holter.schema.table import Detail, Table, detail_of
from holter.schema.tables import GRADIENT, PARAMETERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COLUMNS = ("time", "rank", "step", "name", "value")
_LISTED = 20


@rule_class
class NonFiniteGradient(PatternRule):
    """A gradient, or the loss, is NaN or infinite at a step that no gradient scaler skipped."""

    reads = ("scalars", "spans/skipped", "events/nonfinite", "tensors")
    severity = "critical"
    formula = (
        "a gradient element, a gradient norm, or the loss is not finite: critical; a note when a gradient "
        "scaler skipped the step"
    )
    advice = (
        "Restart from an earlier checkpoint. Look at the tensor that is named first, lower the learning "
        "rate, clip gradients, or use bfloat16 instead of float16."
    )
    packs = ("default", "essentials", "convergence")
    patterns = ("losses",)

    losses: str = parameter(MAIN_LOSS)
    """Pattern of the loss among the scalars, anywhere in its name."""

    def evaluate(self, window: Window) -> Issues:
        """Judge the complete steps, and report the first bad one."""
        state = window.state
        for row in window.new("events").to_rows():
            if row["kind"] == "nonfinite" and (at := [row["time"], row["rank"], row["name"], row["detail"]]):
                state["origin"] = min([*([state["origin"]] if "origin" in state else []), at])
        known = state.setdefault("ranks", [])
        rows = _rows(window, self.losses)
        state["ranks"] = sorted({*known, *rows["rank"].tolist()})
        waiting = state.setdefault("rows", {})
        for one in complete_steps(rows, waiting, ("name", "value"), ended=window.job.ended):
            if state.setdefault("attempt", one.attempt) != one.attempt:
                state.update(attempt=one.attempt, skips=[])
            window.judged(len(np.unique(one.rows["step"])))
            yield from self._judge(window, one.rows)
        if not state["ranks"]:
            window.insufficient("no_input", "no loss and no gradient is recorded; use --save gradients@100")

    def _judge(self, window: Window, rows: Table) -> Issues:
        state, norms = window.state, joined(rows)  # `rows` holds ranks, `norms` those of the whole gradient
        rows = Table({**rows.columns, "name": np.array(list(map(whole, rows["name"])), dtype=object)})
        names, steps = rows["name"].astype(str), rows["step"]
        skipped = sorted({*state.get("skips", []), *steps[names == "skipped"].tolist()})
        state["skips"] = skipped[-4:]
        # A loss logged after the optimizer's step belongs to the next step.
        excused = np.isin(steps, skipped) | np.isin(steps - 1, skipped)
        flagged = (names == "nonfinite_gradients") & (rows["value"] > 0)
        wild = np.isin(names, ("grad_norm", "loss")) & ~np.isfinite(rows["value"])
        bad = flagged | wild | np.char.startswith(names, "gradient/")
        weights = np.char.startswith(names, "weight/")
        first = int(steps[bad & ~excused].min()) if (bad & ~excused).any() else None
        sound = (norms["name"] == "grad_norm") & np.isfinite(norms["value"])
        if first is not None and "first" not in state:
            sound &= norms["step"] < first
            state["weights_were_bad"] = state.get("weights_were_bad", False) or bool(
                (steps[weights] < first).any()
            )
        if "first" not in state and sound.any():
            last = np.flatnonzero(sound)[-1]
            state["sound"] = {"step": int(norms["step"][last]), "grad_norm": float(norms["value"][last])}
        if (bad & excused).any():
            at = np.unique(steps[bad & excused])
            yield self.issue(
                "gradients overflowed at steps that the scaler skipped, as it does to find its scale",
                code="excused",
                severity="info",
                step_start=int(at[0]),
                step_end=int(at[-1]),
                count=len(at),
                advice="No action while it is rare; LossScaleCollapse reports when it is frequent.",
            )
        if first is not None:
            yield from self._critical(window, rows.where(bad & ~excused))

    def _critical(self, window: Window, rows: Table) -> Issues:
        state, names, steps = window.state, rows["name"].astype(str), rows["step"]
        if "first" not in state:
            step = int(steps.min())
            here = set(names[steps == step].tolist())
            gradients = sorted(name for name in here if name.startswith("gradient/"))
            state.update(first=step, what=sorted(here - set(gradients)), gradients=gradients, bad_ranks=[])
            state["first_ranks"] = sorted(set(rows["rank"][steps == step].tolist()))
        state["bad_ranks"] = sorted({*state["bad_ranks"], *rows["rank"].tolist()})
        origin = _origin(window)
        alone = len(state["first_ranks"]) == 1 and len(state["ranks"]) > 1
        what = "gradients are" if state["gradients"] or "loss" not in state["what"] else "the loss is"
        yield self.issue(
            f"{what} not finite from step {state['first']} on; it started in {origin['where']}"
            + (f", on rank {state['first_ranks'][0]} alone: look at its data and device" if alone else ""),
            code="nonfinite",
            step_start=state["first"],
            step_end=int(steps.max()),
            count=len(np.unique(steps)),
            evidence={
                "first_step": state["first"],
                "origin": origin,
                "parameters": state["gradients"][:_LISTED],
                "parameters_count": len(state["gradients"]),
                "first_ranks": state["first_ranks"],
                "ranks": state["bad_ranks"],
                "weights_finite_before": not state.get("weights_were_bad"),
                "last_finite": state.get("sound"),
            },
        )


def _rows(window: Window, losses: str) -> Table:
    """Collect the rows of each step, with their meaning as the kind; a step without findings has one too."""
    scalars, tensors = window.new("scalars"), window.new("tensors")
    scalars = scalars.where(trained(scalars))
    bad = (tensors["nan"] + tensors["posinf"] + tensors["neginf"]).astype(np.float64)
    parts = [_named(scalars, [_scalar(name, losses) for name in scalars["name"].tolist()], scalars["value"])]
    broken = tensors.where(bad > 0)
    parts.append(
        _named(broken, [_tensor(row["name"], row["role"]) for row in broken.to_rows()], bad[bad > 0])
    )
    for table, name in ((tensors, ""), (tensors.where(tensors["state"] == "skipped"), "skipped")):
        at = table["rank"].astype(np.int64) * 2**32 + table["step"]
        one = table.where(np.unique(at, return_index=True)[1])
        parts.append(_named(one, [name] * one.rows, np.ones(one.rows)))
    skipped = skips(window)
    parts.append(_named(skipped, skipped["name"].tolist(), skipped["value"]))
    return Table.concat(parts)


def _named(table: Table, names: list[str], values: NDArray[Any]) -> Table:
    columns = {name: table[name] for name in ("time", "rank", "step")}
    return Table({**columns, "name": np.array(names, dtype=object), "value": values.astype(np.float64)})


@lru_cache(maxsize=4096)
def _scalar(name: str, losses: str) -> str:
    if re.search(losses, name):
        return "loss"
    return name if whole(name) in ("grad_norm", "nonfinite_gradients") else ""


def _tensor(name: str, role: str) -> str:
    if role == "grad" or name.startswith(GRADIENT):
        return f"{GRADIENT}{name.removeprefix(GRADIENT)}"
    return f"weight/{name}" if role in PARAMETERS else ""


def _origin(window: Window) -> Detail:
    """Return the origin: the recorder's first observation, else the parameters, else the loss or the norm."""
    state = window.state
    if "origin" in state:
        _, rank, name, text = state["origin"]
        detail = detail_of(text)
        way = {"forward": "the forward pass", "backward": "the backward pass"}.get(
            str(detail.get("direction")), ""
        )
        # The previous update broke weights that are not finite at a step.
        way = f"the update of step {detail.get('step')}" if "noticed" in detail else way
        where = f"{name or detail.get('module') or detail.get('parameter')}" + (f", in {way}" if way else "")
        return {"where": where, "rank": rank, "seen": "recorder", **detail}
    if state["gradients"]:
        names = state["gradients"]
        more = f" and {counted(len(names) - 1, 'more parameter')}" if len(names) > 1 else ""
        return {"where": names[0].removeprefix(GRADIENT) + more, "seen": "gradients"}
    return {"where": "the loss" if "loss" in state["what"] else "some gradient", "seen": "numbers"}
