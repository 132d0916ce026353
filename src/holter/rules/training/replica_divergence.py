"""ReplicaDivergence: replicas of the model differ between ranks."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Issue, Issues, Rule, Window, rule_class
from holter.rules.engine.complete_steps import complete_steps
from holter.rules.patterns.layers import listed, new_kinds
from holter.rules.patterns.logged import stacked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table

_COLUMNS = ("name", "fingerprint", "value")
_SCALARS = ("lr", "loss_scale")
_PROOF = {"tensor": 1, "scalar": 10}
"""Number of steps at which a value must be equal on all ranks to count as a replica."""
_LISTED = 50


@rule_class
class ReplicaDivergence(Rule):
    """Parameters, learning rate or loss scale that were the same on all ranks differ between them."""

    reads = ("tensors", "scalars")
    severity = "critical"
    formula = (
        "a parameter's fingerprint, lr or loss_scale that was equal on all ranks differs at two saved steps"
        " in a row; sharded parameters, and values that were never equal, are ignored"
    )
    advice = (
        "Restart from a checkpoint of a rank of the majority, check the devices of the other ranks, and "
        "check that all parameters and buffers are synchronised."
    )
    packs = ("distributed",)

    def evaluate(self, window: Window) -> Issues:
        """Compare what the ranks saved at one step."""
        state, tensors, scalars = window.state, window.new("tensors"), window.new("scalars")
        # Shards may be equal at first, like biases of zeros, but they are not replicas.
        alike = (tensors["fingerprint"] != 0) & (tensors["parts"] <= 1)
        own = tensors.where(new_kinds(window)[0] & alike)
        named = scalars.where(np.isin(scalars["name"].astype(str), _SCALARS))
        values = {"value": np.nan_to_num(named["value"], nan=-1.0)}
        for part in (("tensor", own, {"fingerprint": own["fingerprint"]}), ("scalar", named, values)):
            waiting = state.setdefault(part[0], {}).setdefault("rows", {})
            rows = stacked([part], fingerprint=np.int64, value=np.float64)
            for one in complete_steps(rows, waiting, _COLUMNS, ended=window.job.ended):
                for step, at in one.steps():
                    yield from self._step(window, part[0], step, at)
        if not window.points and not state.get("compared"):
            text = "no parameters with fingerprints of two ranks; use --save weights@500 on all ranks"
            window.insufficient("no_input", text)
        state["compared"] = state.get("compared", False) or window.points > 0

    def _step(self, window: Window, kind: str, step: int, rows: Table) -> Issues:
        state = window.state[kind]
        same: dict[str, int] = state.setdefault("same", {})
        before, differ = set(state.get("differ", [])), dict[str, dict[int, tuple[int, float]]]()
        names, compared, unlike = _compared(rows)
        window.judged(int(compared.sum()))
        for name in itertools.compress(names, (compared & ~unlike).tolist()):
            same[name] = same.get(name, 0) + 1
        odd = {n for n in itertools.compress(names, unlike.tolist()) if same.get(n, 0) >= _PROOF[kind]}
        if odd:
            columns = [rows[name].tolist() for name in ("name", "rank", "fingerprint", "value")]
            for name, rank, fingerprint, value in zip(*columns, strict=True):
                if name in odd:
                    differ.setdefault(name, {})[rank] = (fingerprint, value)
        # Parameters may be saved at different steps: those not compared now keep their verdict.
        state["differ"] = sorted(differ.keys() | (before - set(names)))
        if reported := {name: by_rank for name, by_rank in differ.items() if name in before}:
            yield self._issue(kind, step, reported)

    def _issue(self, kind: str, step: int, differ: dict[str, dict[int, tuple[int, float]]]) -> Issue:
        odd = Counter[int]()
        for by_rank in differ.values():
            ((most, count), *others) = Counter(by_rank.values()).most_common()
            if not others or count > others[0][1]:
                odd.update(rank for rank, print_ in by_rank.items() if print_ != most)
        ranks = sorted({rank for by_rank in differ.values() for rank in by_rank})
        who = f"; ranks {', '.join(map(str, sorted(odd)))} differ from the majority" if odd else ""
        what = (
            f"{len(differ)} parameters, {listed(differ)},"
            if kind == "tensor"
            else " and ".join(sorted(differ))
        )
        return self.issue(
            f"{what} differ between replicas at step {step}{who}",
            code=kind,
            rank=min(odd) if len(odd) == 1 else None,
            step_start=step,
            step_end=step,
            evidence={
                "names": sorted(differ)[:_LISTED],
                "count": len(differ),
                "first": min(differ),
                "ranks": ranks,
                "minority": sorted(odd),
            },
        )


def _compared(rows: Table) -> tuple[list[str], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the names of one step, which of them several ranks report, and which of these differ."""
    places = {name: i for i, name in enumerate(sorted(set(rows["name"].tolist())))}
    name = np.fromiter(map(places.__getitem__, rows["name"].tolist()), np.int64, rows.rows)
    # The last row of a rank and name counts; rows of a step are sorted by rank, then time.
    order = np.lexsort((np.arange(rows.rows), rows["rank"], name))
    name, rank = name[order], rows["rank"][order]
    last = np.ones(len(order), dtype=bool)
    last[:-1] = (name[1:] != name[:-1]) | (rank[1:] != rank[:-1])
    order, name = order[last], name[last]
    first = np.searchsorted(name, np.arange(len(places)))
    unlike = np.zeros(len(places), dtype=bool)
    for column in (rows["fingerprint"][order], rows["value"][order]):
        unlike[name[column != column[first[name]]]] = True
    return list(places), np.bincount(name, minlength=len(places)) > 1, unlike
