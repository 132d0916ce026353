"""ReplicasDiffer: data-parallel ranks no longer hold the same model."""

from __future__ import annotations

from collections import Counter
from typing import Any

from holter.rules import Issues, Rule, Window, rule_class
from holter.rules.patterns.layers import EXPERT, listed
from holter.rules.patterns.sentinel import LOCAL_STEPS, StepFacts, facts, independent, prints, replicas


@rule_class
class ReplicasDiffer(Rule):
    """Parameters that were equal on all ranks differ at a watched step."""

    reads = ("events/sentinel",)
    severity = "critical"
    formula = (
        "sampled elements of a parameter that were equal on all ranks differ, where ranks use DDP, reduce at "
        "every step, or never within 16 steps (100 if they exchange other tensors); shards, experts, "
        "constant parameters and ranks with different learning rates are ignored"
    )
    advice = (
        "Call the DDP module and not the model inside it, wrap the model after its last change of device or "
        "type, and treat gradients alike on all ranks."
    )
    packs = ("default", "essentials", "distributed")

    def evaluate(self, window: Window) -> Issues:
        """Compare the fingerprints of ranks."""
        state = window.state
        for at in facts(window):
            details = replicas(at)
            if not details or any(one.get("ddp_hook") for one in details) or "told" in state:
                continue
            by_rank = {rank: prints(one) for rank, one in at.ranks.items()}
            names, columns = at.first["names"], list(zip(*by_rank.values(), strict=True))
            same = state.setdefault("same", {})
            differ = [i for i, values in enumerate(columns) if len(set(values)) > 1]
            for i, name in enumerate(names):
                if i not in differ and at.first["constant"][i] != "1" and not EXPERT.search(name):
                    same[name] = at.step
            mine = [i for i in differ if names[i] in same]
            steps = at.step - state.setdefault("first_step", at.step)
            reduced = at.first["reductions"] - state.setdefault("reductions", at.first["reductions"])
            local = not at.first["ddp"] and not reduced  # may be averaged later
            if local and (independent(details) or steps < LOCAL_STEPS[at.first["exchanges"] > 0]):
                continue
            if mine and (at.first["ddp"] or reduced == 0 or reduced >= steps):
                state["told"] = at.step
                yield self._issue(at, mine, by_rank, same[names[mine[0]]], reduced)

    def _issue(
        self, at: StepFacts, differ: list[int], by_rank: dict[int, list[int]], equal: int, reduced: int
    ) -> Any:
        names = at.first["names"]
        odd = Counter[int]()
        for i in differ:
            ((most, count), *others) = Counter(values[i] for values in by_rank.values()).most_common()
            if not others or count > others[0][1]:
                odd.update(rank for rank, values in by_rank.items() if values[i] != most)
        minority = ", ".join(map(str, sorted(odd)))
        who = f"rank {minority} differs from the others" if odd else "no two ranks agree"
        cause = ""
        if at.first["unwrapped"]:
            cause = "; the training calls the model inside DDP, so gradients are not exchanged"
        elif not at.first["ddp"] and not reduced:
            cause = f"; {at.first['world']} ranks never reduce gradients"
        first = names[differ[0]]
        return self.issue(
            f"replicas differ at step {at.step} and were equal at step {equal}: {len(differ)} of "
            f"{len(names)} parameters, first {first}; {who}{cause}",
            rank=min(odd) if len(odd) == 1 else None,
            tensor=first,
            step_start=equal,
            step_end=at.step,
            evidence={
                "parameters": listed([names[i] for i in differ]),
                "count": len(differ),
                "of": len(names),
                "ranks": sorted(by_rank),
                "minority": sorted(odd),
                "unwrapped": at.first["unwrapped"],
            },
        )
