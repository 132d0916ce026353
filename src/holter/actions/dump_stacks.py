"""Record the Python stacks of every rank."""

from __future__ import annotations

from dataclasses import dataclass

from holter.actions import Action, ActionFailed, Limits, Occasion, Secrets, written


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpStacks(Action):
    """Write a request into `control.json`; the agents ask every process and store events `stacks`."""

    description = "has every process of the job write its Python stacks into the table of events"
    also_called = ("stacks",)
    limits = Limits(cooldown_s=60)

    def act(self, occasion: Occasion, secrets: Secrets) -> str:
        """Write the request."""
        if occasion.over:
            raise ActionFailed("refused: the job has ended")
        if not any("stacks" in (node.get("obeys") or ()) for node in occasion.folder.nodes().values()):
            raise ActionFailed("refused: no agent of this job dumps stacks")
        with written("the request"):
            occasion.folder.order(stacks={"id": occasion.id, "by": {"rule": occasion.rule}})
        return "asked every rank for its stacks"
