"""RepeatedBatches: consecutive batches of one loader are equal, or ranks receive equal batches."""

from __future__ import annotations

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.sentinel import StepFacts, facts


@rule_class
class RepeatedBatches(Rule):
    """Workers of a loader or ranks produce the same batches."""

    reads = ("events/sentinel",)
    formula = (
        "of `batches` consecutive batches of an epoch a share above `share` equals one of the 16 before it: "
        "warning, note if all are equal; or, where one DDP group holds all ranks, the same share of their "
        "batches at one step equals that of another rank: likewise"
    )
    advice = (
        "Create random generators in worker_init_fn or from torch.initial_seed(), not in the dataset's "
        "__init__; give each rank its part of the data with a DistributedSampler."
    )
    packs = ("default", "essentials", "convergence")

    batches: int = parameter(6, low=2)
    """Number of batches that are judged at least."""
    share: float = parameter(0.25, low=0, high=1)
    """Share of repeated batches that is normal."""

    def evaluate(self, window: Window) -> Issues:
        """Count repeated batches."""
        for at in facts(window):
            for rank, detail in at.ranks.items():
                for loader, step, print_, *first in detail["batches"]:
                    self._count(window, f"{rank}/{loader}", step, print_, bool(first))
            yield from self._loaders(window, at)
            yield from self._ranks(window, at)

    def _count(self, window: Window, key: str, step: int, print_: int, first: bool) -> None:
        known = window.state.setdefault("loaders", {}).setdefault(
            key, {"recent": [], "step": step, "seen": 0, "again": 0, "first": None, "distinct": 0}
        )
        if first or step > known["step"] + 1:  # another epoch, or batches between are unknown
            known["recent"] = []
        known["step"] = step
        again = print_ in known["recent"]
        known["seen"] += bool(known["recent"])
        known["again"] += again
        known["distinct"] += not again
        if again and known["first"] is None:
            known["first"] = step
        known["recent"] = [*known["recent"][-15:], print_]

    def _loaders(self, window: Window, at: StepFacts) -> Issues:
        for key, known in sorted(window.state.get("loaders", {}).items()):
            enough = known["seen"] >= self.batches and known["again"] > self.share * known["seen"]
            if not enough or known.get("told"):
                continue
            known["told"] = True
            rank, _, loader = key.partition("/")
            one = known["distinct"] == 1
            yield self.issue(
                f"{known['again']} of {known['seen']} batches of loader {loader} equal a batch shortly before"
                + ("; all are one batch" if one else ""),
                code="one_batch" if one else "loader",
                severity="info" if one else "warning",
                rank=int(rank) if len(at.ranks) > 1 else None,
                step_start=known["first"],
                step_end=at.step,
                evidence={"repeated": known["again"], "batches": known["seen"], "loader": int(loader)},
            )

    def _ranks(self, window: Window, at: StepFacts) -> Issues:
        state = window.state.setdefault("ranks", {"seen": 0, "same": 0, "distinct": []})
        # Ranks of a part of the job, as with tensor parallelism, share batches by design.
        whole = len(at.ranks) > 1 and at.first.get("ddp_ranks") == at.first["world"]
        if not whole or "told" in state:
            return
        by_rank = [{tuple(one[:2]): one[2] for one in detail["batches"]} for detail in at.ranks.values()]
        shared = set(by_rank[0]).intersection(*by_rank[1:])
        state["seen"] += len(shared)
        state["same"] += sum(len({one[key] for one in by_rank}) < len(by_rank) for key in shared)
        state["distinct"] = sorted({*state["distinct"], *(one[key] for one in by_rank for key in shared)})[:2]
        if state["seen"] >= self.batches and state["same"] > self.share * state["seen"]:
            state["told"] = True
            one = len(state["distinct"]) == 1
            yield self.issue(
                f"ranks receive the same batches: {state['same']} of {state['seen']} are equal"
                + ("; all are one batch" if one else ""),
                code="ranks",
                severity="info" if one else "warning",
                step_end=at.step,
                evidence={"seen": state["seen"], "same": state["same"]},
            )
