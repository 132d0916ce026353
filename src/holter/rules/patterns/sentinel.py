"""The facts that the sentinel records about a training at some steps, brought together over the ranks."""

from __future__ import annotations

from array import array
from base64 import b64decode
from typing import TYPE_CHECKING, Any, NamedTuple

from holter.analysis.verdict.evidence import counted
from holter.rules.patterns.event_details import details_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.rules import Window

NO_FACTS = (
    "the sentinel recorded nothing: no optimizer of PyTorch has stepped, two threads train, or --no-sentinel"
)
"""Why a rule about facts of the sentinel has nothing to judge."""
LOCAL_STEPS = {False: 16, True: 100}
"""Steps without a reduction after which ranks without DDP do not average their models: longer if they have
exchanged other tensors, such as parameters at the beginning."""


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

    A rank whose step goes back was started again: what waits is of the time before, and nothing completes it.
    It keeps waiting facts in `window.state`, so call it once in each window.
    """
    state = window.state.setdefault("sentinel", {"waiting": {}, "names": {}, "last": {}})
    waiting, names, last = state["waiting"], state["names"], state["last"]
    for row, detail in details_of(window.new("events"), "sentinel"):
        if "step" not in detail:
            continue
        rank, step = str(row["rank"]), detail["step"]
        if step < last.get(rank, step):
            yield from _complete(window, waiting, rest=True)
            last.clear()
        last[rank] = step
        names[rank] = detail.setdefault("names", names.get(rank, []))
        waiting.setdefault(str(step), {})[rank] = detail
    yield from _complete(window, waiting, rest=window.job.ended)
    if not names:
        window.insufficient("no_input", NO_FACTS)


def _complete(
    window: Window, waiting: dict[str, dict[str, dict[str, Any]]], *, rest: bool
) -> Iterator[StepFacts]:
    """Yield and forget the steps whose facts all ranks have recorded; `rest`: also the others."""
    for step in sorted(map(int, waiting)):
        found = waiting[str(step)]
        if rest or len(found) >= max(one.get("world", 1) for one in found.values()):
            window.judged(1)
            del waiting[str(step)]
            yield StepFacts(step, {int(rank): found[rank] for rank in sorted(found, key=int)})


def events_of(window: Window) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the new events of the sentinel, each with its details, also those between watched steps."""
    found = list(details_of(window.new("events"), "sentinel"))
    window.judged(len(found))
    if found:
        window.state["judged"] = True
    elif "judged" not in window.state:
        window.insufficient("no_input", NO_FACTS)
    return found


def times(window: Window, finding: str) -> int:
    """Count a finding and return how often it was found so far, so that a rule reports it only once."""
    counts: dict[str, int] = window.state.setdefault("times", {})
    counts[finding] = counts.get(finding, 0) + 1
    return counts[finding]


def prints(detail: Mapping[str, Any], kind: str = "prints") -> list[int]:
    """Return the fingerprints of the parameters, or of their `gradients`, in the order of the names."""
    return array("I", b64decode(detail.get(kind, ""))).tolist()


def replicas(at: StepFacts) -> list[dict[str, Any]]:
    """Return the facts of all ranks if each holds a whole copy of one model, else nothing."""
    details = list(at.ranks.values())
    world = min(one.get("world", 1) for one in details)
    if world < 2 or len(details) < world or any(one.get("sharded") for one in details):
        return []
    return details if len({tuple(one["names"]) for one in details}) == 1 else []


def independent(details: list[dict[str, Any]]) -> bool:
    """Return whether ranks train on purpose by themselves: their learning rates differ."""
    return len({tuple(one["lr"] for one in detail["optimizers"]) for detail in details}) > 1


def mode_layers(model: dict[str, Any]) -> str:
    """Return how many layers of a model depend on its mode: `2 dropout layers and 1 batch norm layer`."""
    kinds = (("dropout", "dropout"), ("batch_norm", "batch norm"))
    return " and ".join(counted(model[kind], f"{name} layer") for kind, name in kinds if model[kind])
