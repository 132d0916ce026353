"""The facts that the sentinel records about a training at some steps, brought together over the ranks."""

from __future__ import annotations

from array import array
from base64 import b64decode
from typing import TYPE_CHECKING, Any, NamedTuple

from holter.rules.patterns.event_details import details_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.rules import Window

NO_FACTS = (
    "the sentinel recorded nothing: no optimizer of PyTorch has stepped, two threads train, or --no-sentinel"
)


LOCAL_STEPS = {False: 16, True: 100}
"""Steps without a reduction after which ranks without DDP do not average their models: longer if they have
exchanged other tensors, such as parameters at the begin."""


class StepFacts(NamedTuple):
    """What the ranks recorded at one step."""

    step: int
    ranks: dict[int, dict[str, Any]]
    """The facts by rank, as docs/explanation/silent-errors.md describes them."""

    @property
    def first(self) -> dict[str, Any]:
        """The facts of the lowest rank."""
        return self.ranks[min(self.ranks)]


def facts(window: Window) -> Iterator[StepFacts]:
    """Yield the new steps whose facts all ranks have recorded, in order; at the end also the others.

    It keeps waiting facts in `window.state`, so call it once in each window.
    """
    state = window.state.setdefault("sentinel", {"waiting": {}, "names": {}})
    waiting, names = state["waiting"], state["names"]
    for row, detail in details_of(window.new("events"), "sentinel"):
        if "step" not in detail:
            continue
        rank = str(row["rank"])
        names[rank] = detail.setdefault("names", names.get(rank, []))
        waiting.setdefault(str(detail["step"]), {})[rank] = detail
    for step in sorted(map(int, waiting)):
        found = waiting[str(step)]
        if window.job.ended or len(found) >= max(one.get("world", 1) for one in found.values()):
            window.judged(1)
            del waiting[str(step)]
            yield StepFacts(step, {int(rank): found[rank] for rank in sorted(found, key=int)})
    if not names:
        window.insufficient("no_input", NO_FACTS)


def prints(detail: Mapping[str, Any], kind: str = "prints") -> list[int]:
    """Return the fingerprints of the parameters, or of their `gradients`, in the order of the names."""
    return array("I", b64decode(detail.get(kind, ""))).tolist()


def independent(details: list[dict[str, Any]]) -> bool:
    """Return whether ranks train on purpose by themselves: their learning rates differ."""
    return len({tuple(one["lr"] for one in detail["optimizers"]) for detail in details}) > 1
