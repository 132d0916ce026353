"""How many cores a job uses, how many are used in all, and how long its trainers wait for one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from holter.rules import Window
    from holter.rules.engine.lookback import SampleSeries


class CoreShares(NamedTuple):
    """The cores of a node that the job may use."""

    cores: int
    used: float
    """Mean number of cores in use."""
    own: float
    """Mean number of cores that the job's processes use."""


def shares_of_cores(window: Window, since: int) -> dict[str, CoreShares]:
    """Return the shares of each node whose readings are known, after a moment."""
    cores = Counter(node for node, _ in window.series("cpu.core.util", since=since))
    own: dict[str, float] = {}
    for (node, _), role in window.series("proc.cpu", since=since).items():
        own[node] = own.get(node, 0.0) + float(role.value.mean()) / 100
    used = {node: one for (node, _), one in window.series("cpu.util", since=since).items()}
    return {
        node: CoreShares(cores[node], cores[node] * float(used[node].value.mean()) / 100, own[node])
        for node in cores.keys() & own.keys() & used.keys()
    }


def waits_for_core(window: Window, since: int) -> dict[str, SampleSeries]:
    """Return each node's readings of the trainers' wait for a core, without that of workers."""
    series = window.series("proc.cpu.delay", since=since)
    return {node: one for (node, role), one in series.items() if role == "trainer"}
