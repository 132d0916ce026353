"""How many cores a job uses, how many are used in all, and how long its trainers wait for one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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
    own = cpu_of_job(window, since)
    used = {node: one for (node, _), one in window.series("cpu.util", since=since).items()}
    return {
        node: CoreShares(cores[node], cores[node] * float(used[node].value.mean()) / 100, own[node] / 100)
        for node in cores.keys() & own.keys() & used.keys()
    }


def cpu_of_job(window: Window, since: int) -> dict[str, float]:
    """Return the mean CPU usage of all processes of the job on each node, in percent of a core.

    A process changes its role when it begins to train, so the roles are added at each moment.
    """
    readings: dict[str, list[SampleSeries]] = {}
    for (node, _), role in window.series("proc.cpu", since=since).items():
        readings.setdefault(node, []).append(role)
    return {
        node: sum(float(role.value.sum()) for role in roles)
        / len(np.unique(np.concatenate([role.time for role in roles])))
        for node, roles in readings.items()
    }


def waits_for_core(window: Window, since: int) -> dict[str, SampleSeries]:
    """Return each node's readings of the trainers' wait for a core, without that of workers."""
    series = window.series("proc.cpu.delay", since=since)
    return {node: one for (node, role), one in series.items() if role == "trainer"}
