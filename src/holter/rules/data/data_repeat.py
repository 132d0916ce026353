"""DataRepeat: ranks or epochs see the same batches again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.verdict.evidence import counted
from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.engine.complete_steps import complete_steps
from holter.rules.patterns.logged import trained
from holter.schema.tables import PARAMETERS

if TYPE_CHECKING:
    from holter.schema.table import Table

_COLUMNS = ("name", "role", "fingerprint")
_KEPT = 5000


@rule_class
class DataRepeat(Rule):
    """Data-parallel ranks receive the same batch at one step, or batches repeat in the same order."""

    reads = ("tensors",)
    formula = (
        "the same fingerprint of a model input on two ranks at `steps` saved steps in a row: warning when "
        "their weights are equal, note when the weights are unknown; `again` saved batches in a row that "
        "repeat earlier batches at a constant distance: note"
    )
    advice = "Give the loader a DistributedSampler, and call its set_epoch at the start of each epoch."
    packs = ("distributed", "convergence")

    steps: int = parameter(2, low=1, unit="saved steps")
    """Number of saved steps in a row at which two ranks must have the same batch."""
    again: int = parameter(5, low=2, unit="saved steps")
    """Number of saved batches in a row that must repeat earlier ones in the same order."""

    def evaluate(self, window: Window) -> Issues:
        """Compare the fingerprints of each saved step."""
        state, new = window.state, window.new("tensors")
        roles = new["role"].astype(str)
        inputs = np.char.startswith(roles, "model_input") | (roles == "token_ids")
        printed = trained(new) & (new["fingerprint"] != 0)
        rows = new.where(printed & (inputs | np.isin(roles, PARAMETERS)))
        for one in complete_steps(rows, state.setdefault("rows", {}), _COLUMNS, ended=window.job.ended):
            for step, at in one.steps():
                yield from self._step(window, step, at)
        if not state.get("last"):
            window.insufficient(
                "no_input", "no fingerprints of model inputs are recorded; use --save inputs@10"
            )

    def _step(self, window: Window, step: int, rows: Table) -> Issues:
        state = window.state
        prints: dict[str, dict[str, int]] = {}
        weights: dict[int, dict[str, int]] = {}
        columns = [rows[name].tolist() for name in ("name", "role", "rank", "fingerprint")]
        for name, role, rank, fingerprint in zip(*columns, strict=True):
            if role in PARAMETERS:
                weights.setdefault(rank, {})[name] = fingerprint
            else:
                prints.setdefault(name, {})[str(rank)] = fingerprint
        if len(weights) > 1:
            state["replicas"] = all(one == next(iter(weights.values())) for one in weights.values())
        last: dict[str, dict[str, int]] = state.setdefault("last", {})
        for name, by_rank in sorted(prints.items()):
            window.judged(1)
            # An input that is equal at every step, such as a mask of ones, is ignored.
            before = last.get(name, {})
            fresh = {r: p for r, p in by_rank.items() if r in before and before[r] != p}
            last[name] = by_rank
            yield from self._ranks(window, step, name, fresh)
            yield from self._order(window, step, name, fresh)

    def _ranks(self, window: Window, step: int, name: str, fresh: dict[str, int]) -> Issues:
        streaks: dict[str, int] = window.state.setdefault("streaks", {})
        by_print: dict[int, list[int]] = {}
        for rank, fingerprint in fresh.items():
            by_print.setdefault(fingerprint, []).append(int(rank))
        same = sorted(rank for ranks in by_print.values() if len(ranks) > 1 for rank in ranks)
        streaks[name] = streaks.get(name, 0) + 1 if same else 0
        replicas = window.state.get("replicas")
        if streaks[name] < self.steps or replicas is False:
            return
        yield self.issue(
            f"ranks {', '.join(map(str, same))} trained on the same batch at step {step}",
            code="ranks",
            severity="warning" if replicas else "info",
            tensor=name,
            step_start=step,
            step_end=step,
            evidence={"ranks": same, "weights_are_the_same": replicas},
        )

    def _order(self, window: Window, step: int, name: str, fresh: dict[str, int]) -> Issues:
        """Check whether the lowest rank's batches repeat an earlier order."""
        if not fresh:
            return
        rank = min(fresh, key=int)
        orders = window.state.setdefault("orders", {})
        one = orders.setdefault(name, {"rank": rank, "seen": {}, "lag": 0, "run": 0})
        if one["rank"] != rank:
            return
        fingerprint = str(fresh[rank])
        before = one["seen"].get(fingerprint)
        lag = 0 if before is None else step - before
        one["run"] = one["run"] + 1 if lag > 0 and lag == one["lag"] else int(lag > 0)
        one["lag"] = lag
        if before is not None or len(one["seen"]) < _KEPT:
            one["seen"][fingerprint] = step
        if one["run"] == self.again:
            yield self.issue(
                f"batches repeat the order of {counted(lag, 'step')} earlier",
                code="order",
                severity="info",
                tensor=name,
                rank=int(rank),
                step_start=step,
                step_end=step,
                evidence={"lag_steps": lag, "batches": one["run"]},
            )
