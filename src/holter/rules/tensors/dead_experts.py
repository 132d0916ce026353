"""DeadExperts: a mixture-of-experts router sends almost no tokens to some experts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from holter.rules import Issues, Rule, Severity, Window, parameter, rule_class
from holter.rules.engine.complete_steps import complete_steps
from holter.rules.patterns.logged import pattern

_COLUMNS = ("name", "position", "value")
_ENOUGH = 100
"""Tokens per expert that a judgement is made of at least: then a tenth of it is no chance."""


@rule_class
class DeadExperts(Rule):
    """The router of a mixture of experts sends nearly all tokens to few experts for hundreds of steps."""

    reads = ("tensor_values",)
    formula = (
        "for `steps` steps over all ranks: load of an expert < least x the uniform share: warning, of over "
        "25 % of the experts: critical; largest load > most x the mean, or entropy of the loads < entropy x"
        " ln(experts): warning"
    )
    advice = (
        "Raise the weight of the load-balancing loss, add router noise, or lower the router's learning rate."
    )
    packs = ("convergence",)

    names: str = parameter(
        r"(?i)(router|expert|moe|gate).*(count|load|tokens)|tokens_per_expert", aliases=("tensor_regex",)
    )
    """Pattern of the tensors that hold the tokens of each expert, anywhere in their names."""
    steps: int = parameter(500, low=0, unit="steps")
    """Number of steps for which the condition must hold."""
    least: float = parameter(0.10, above=0, high=1)
    """Share of the uniform load below which an expert is dead."""
    most: float = parameter(4.0, above=1)
    """Largest allowed load, as a multiple of the mean load."""
    entropy: float = parameter(0.5, low=0, high=1)
    """Smallest allowed entropy of the loads, as a share of the entropy of equal loads."""

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        pattern(self, "names")

    def evaluate(self, window: Window) -> Issues:
        """Add up the tokens of each layer until they suffice to judge."""
        state, new = window.state, window.new("tensor_values")
        search = pattern(self, "names").search
        names = {name for name in set(new["name"].tolist()) if search(name)}
        mine = np.fromiter((name in names for name in new["name"].tolist()), bool, new.rows)
        training = (new["mode"] != "eval") & (new["mode"] != "predict")
        rows = new.where(mine & training & (new["kind"] == "value") & (new["position"] >= 0))
        rows = rows.where(np.isfinite(rows["value"]) & (rows["value"] >= 0))
        for one in complete_steps(rows, state.setdefault("rows", {}), _COLUMNS, ended=window.job.ended):
            for step, at in one.steps():
                for name in sorted(set(at["name"].tolist())):
                    here = at.where(at["name"] == name)
                    loads = np.bincount(here["position"], weights=here["value"])
                    yield from self._add(window, name, step, loads)
        if "layers" not in state:
            text = "no tokens per expert are recorded; save a tensor of counts called router_counts"
            window.insufficient("no_input", text)

    def _add(self, window: Window, name: str, step: int, loads: Any) -> Issues:
        one = window.state.setdefault("layers", {}).setdefault(name, {"loads": [], "held": {}})
        if len(one["loads"]) != len(loads):
            one.update(loads=[0.0] * len(loads), start=step)
        one["loads"] = [a + b for a, b in zip(one["loads"], loads.tolist(), strict=True)]
        experts = len(loads)
        if experts < 2 or sum(one["loads"]) < _ENOUGH * experts:
            return
        window.judged(1)
        total, one["loads"] = np.array(one["loads"]), [0.0] * experts
        start, one["start"] = one["start"], step + 1
        held = one["held"]
        dead = np.flatnonzero(total < self.least * total.mean()).tolist()
        # An expert is dead only while every judgement finds the same expert dead.
        since = {str(e): held.get("dead", {}).get(str(e), start) for e in dead}
        long = sorted(int(e) for e, s in since.items() if step - s >= self.steps)
        high = float(total.max() / total.mean())
        share = total[total > 0] / total.sum()
        even = float(-(share * np.log(share)).sum()) / math.log(experts)
        one["held"] = {"dead": since}
        if high > self.most:
            one["held"]["load"] = held.get("load", start)
        if even < self.entropy:
            one["held"]["entropy"] = held.get("entropy", start)
        evidence = {"experts": experts, "largest_over_mean": high, "entropy_share": even, "dead": long}
        where = {"tensor": name, "step_end": step, "evidence": evidence}
        if long:
            severity: Severity = "critical" if len(long) > 0.25 * experts else "warning"
            text = f"{len(long)} of {experts} experts of {name} receive almost no tokens"
            begin = min(since[str(e)] for e in long)
            yield self.issue(text, code="dead", severity=severity, step_start=begin, **where)
        for code, text in (
            ("load", f"an expert of {name} receives {high:.3g} times the mean load"),
            ("entropy", f"the loads of {name} have {even:.0%} of the entropy of equal loads"),
        ):
            begin = one["held"].get(code)
            if begin is not None and step - begin >= self.steps:
                yield self.issue(text, code=code, step_start=begin, **where)
