"""Whose a GPU is: on a shared machine the agent sees those of other people's jobs too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holter.rules import Window
    from holter.rules.engine.lookback import Place

READS = "samples/gpu.procs"


def owners(window: Window) -> dict[Place, int]:
    """Return how many of the job's trainers held memory on each GPU at most, since the job began.

    A GPU is absent where that cannot be told, as in a container whose process numbers differ from the
    machine's. To be asked once in each window; kept in its state.
    """
    known: dict[str, int] = window.state.setdefault("owners", {})
    for (node, device), series in window.series("gpu.procs", new=True).items():
        key = f"{node}/{device}"
        known[key] = max(known.get(key, 0), int(series.value.max()))
    return {(k.rpartition("/")[0], k.rpartition("/")[2]): count for k, count in known.items()}


def ours(places: Iterable[Place], known: dict[Place, int]) -> list[Place]:
    """Return the GPUs that are not known to be used by nobody of this job, sorted."""
    return sorted(place for place in places if known.get(place, 1) > 0)
