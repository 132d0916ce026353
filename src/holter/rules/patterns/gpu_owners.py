"""Finds the GPUs of the job; on a shared machine the agent also sees GPUs of other jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holter.rules import Window
    from holter.rules.engine.lookback import Place

READS = "samples/gpu.procs"


def owners(window: Window) -> dict[Place, int]:
    """Return the most trainers of the job that held memory on each GPU since the job began.

    A GPU is absent if this is unknown, as in a container whose process numbers differ from the machine's.
    Call it once in each window; it uses the state.
    """
    known: dict[str, int] = window.state.setdefault("owners", {})
    for (node, device), series in window.series("gpu.procs", new=True).items():
        key = f"{node}/{device}"
        known[key] = max(known.get(key, 0), int(series.value.max()))
    return {(k.rpartition("/")[0], k.rpartition("/")[2]): count for k, count in known.items()}


def ours(places: Iterable[Place], known: dict[Place, int]) -> list[Place]:
    """Return the GPUs that the job uses or may use, sorted."""
    return sorted(place for place in places if known.get(place, 1) > 0)
