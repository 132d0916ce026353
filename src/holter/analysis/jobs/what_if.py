"""Says how long a job's steps would take with one cause of slowness removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.analysis.jobs.dependencies import dependencies
from holter.analysis.jobs.worker_timeline import COMPUTE, WorkerTimeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.analysis.jobs.dependencies import Floats, Ints

MIN_STEPS = 2
DEVIATION = 0.1
"""The replay of the recorded durations may miss the recorded step time by this share at most."""
SLOW = 1.05
"""A slow worker computes at least so many times as long as its peers."""
MOST_WORKERS = 5
"""At most this many slow workers are removed one by one; all of them are removed at once, too."""


class Cause(NamedTuple):
    """One cause of slowness, and the mean step time without it."""

    kind: str
    """Of a timeline: worker, workers, stage, micro_batches or communication. Of recorded steps: rank, ranks,
    unequal_ranks, data_loading or communication."""
    name: str
    """The worker, stage or rank; empty for other causes."""
    step_ms: float
    speedup: float
    """Recorded step time, as the replay gives it, over the step time without the cause."""
    ratio: float
    """By how much the worker or stage is slower than the others at the same work; 0 for other causes."""


class WhatIf(NamedTuple):
    """Step times of a job as a replay of its dependencies gives them, with and without causes. Means, ms."""

    workers: int
    recorded_ms: float
    step_ms: float
    """Replay with the recorded durations: without the delays between operations."""
    ideal_ms: float
    """Replay in which equal operations take equally long everywhere."""
    slowdown: float
    """step_ms / ideal_ms."""
    causes: list[Cause]
    """The most costly first."""
    by_operation: dict[str, float]
    """Slowdown if only operations of this name keep their recorded durations."""
    by_stage: dict[str, float]
    by_replica: dict[str, float]

    def without(self, *kinds: str) -> Cause | None:
        """Return the most costly cause of these kinds."""
        return next((cause for cause in self.causes if cause.kind in kinds), None)

    def to_json(self) -> dict[str, object]:
        """Return the replay as `describe --json` prints it under `what_if`."""
        return {**self._asdict(), "causes": [cause._asdict() for cause in self.causes]}


def what_if(timeline: WorkerTimeline) -> WhatIf | None:
    """Play the timeline again without each cause; None if it has one step or the replay differs."""
    graph = dependencies(timeline)
    if graph is None or timeline.steps < MIN_STEPS:
        return None
    recorded, computes = graph.duration, timeline.kind == COMPUTE
    stage, replica = timeline.stage[timeline.worker], timeline.replica[timeline.worker]
    ideal = _of_each(timeline.name, recorded, np.mean)
    transfers = _of_each(timeline.name, recorded, np.median)
    ideal = np.where(computes, ideal, transfers)
    variants: list[Floats] = [recorded, ideal]

    def played(durations: Floats) -> int:
        variants.append(durations)
        return len(variants) - 1

    def kept(which: Any) -> int:
        return played(np.where(which, recorded, ideal))

    operations = {name: kept(timeline.name == i) for i, name in enumerate(timeline.names)}
    stages = {str(i): kept(stage == i) for i in np.unique(stage).tolist()}
    replicas = {str(i): kept(replica == i) for i in np.unique(replica).tolist()}
    causes: list[tuple[str, str, int, float]] = []
    levels = _levels_of(timeline, recorded, computes)
    usual = _of_peers(timeline, levels)
    slow = _slow_workers(levels, usual)
    like_peers = np.minimum(np.divide(usual, levels, out=np.ones_like(levels), where=levels > 0), 1.0)
    for some in [[one] for one in slow[:MOST_WORKERS]] + ([slow] if len(slow) > 1 else []):
        which = [worker for worker, _ in some]
        factor = np.ones_like(levels)
        factor[which] = like_peers[which]
        equal = np.where(computes, recorded * factor[timeline.worker, timeline.name], recorded)
        name = _worker(timeline, some[0][0]) if len(some) == 1 else f"{len(some)} workers"
        causes.append(("worker" if len(some) == 1 else "workers", name, played(equal), some[0][1]))
    if len(stages) > 1:
        factor, slowest, ratio = _balanced(timeline, levels)
        equal = np.where(computes, recorded * factor[stage, timeline.name], recorded)
        causes.append(("stage", f"stage {slowest}", played(equal), ratio))
    own = _of_each(timeline.worker * len(timeline.names) + timeline.name, recorded, np.mean)
    causes.append(("micro_batches", "", played(np.where(computes, own, recorded)), 0.0))
    causes.append(("communication", "", played(np.where(computes, recorded, 0.0)), 0.0))
    mean = graph.play(np.stack(variants, axis=1), timeline.step).mean(axis=0) / 1e6
    length = np.zeros(timeline.steps, dtype=np.int64)
    np.maximum.at(length, timeline.step, timeline.end)
    measured, step, least = float(length.mean()) / 1e6, float(mean[0]), float(mean[1])
    if not least or abs(step / measured - 1) > DEVIATION:
        return None
    found = [
        Cause(kind, name, float(mean[i]), step / float(mean[i]), ratio) for kind, name, i, ratio in causes
    ]
    return WhatIf(
        workers=len(timeline.replica),
        recorded_ms=measured,
        step_ms=step,
        ideal_ms=least,
        slowdown=step / least,
        causes=sorted(found, key=lambda cause: cause.step_ms),
        by_operation={name: float(mean[i]) / least for name, i in operations.items()},
        by_stage={name: float(mean[i]) / least for name, i in stages.items()},
        by_replica={name: float(mean[i]) / least for name, i in replicas.items()},
    )


def _of_each(group: Ints, values: Floats, summary: Callable[[Floats], Any]) -> Floats:
    """Replace each value by the summary of its group."""
    found = values.copy()
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    for rows in np.split(order, cuts):
        found[rows] = summary(values[rows])
    return found


def _levels_of(timeline: WorkerTimeline, recorded: Floats, computes: Any) -> Floats:
    """Return the time of each worker (row) in each computation (column) per step, ns."""
    size = (len(timeline.replica), len(timeline.names))
    cell = timeline.worker * size[1] + timeline.name
    sums = np.bincount(cell[computes], recorded[computes], minlength=size[0] * size[1])
    return sums.reshape(size) / timeline.steps


def _of_peers(timeline: WorkerTimeline, levels: Floats) -> Floats:
    """Return what the other workers of the same stage take (median); a worker without peers is its own."""
    found = levels.copy()
    for worker in range(len(levels)):
        peers = timeline.stage == timeline.stage[worker]
        peers[worker] = False
        if peers.any():
            found[worker] = np.median(levels[peers], axis=0)
    return found


def _slow_workers(levels: Floats, usual: Floats) -> list[tuple[int, float]]:
    """Return the workers that compute longer than their peers, with the ratio; the slowest first."""
    ratio = levels.sum(axis=1) / np.maximum(usual.sum(axis=1), 1.0)
    return [(int(worker), float(ratio[worker])) for worker in np.argsort(-ratio) if ratio[worker] > SLOW]


def _balanced(timeline: WorkerTimeline, levels: Floats) -> tuple[Floats, int, float]:
    """Return factors for equal stages by stage and name, the stage with the most work, and its excess."""
    numbers = np.unique(timeline.stage)
    usual = np.zeros((int(numbers.max()) + 1, levels.shape[1]))
    for stage in numbers.tolist():
        usual[stage] = np.median(levels[timeline.stage == stage], axis=0)
    shared = (usual[numbers] > 0).all(axis=0)
    target = usual[numbers].mean(axis=0)
    factor = np.divide(target, usual, out=np.ones_like(usual), where=(usual > 0) & shared)
    total = usual[numbers][:, shared].sum(axis=1)
    worst = int(np.argmax(total))
    others = float(np.delete(total, worst).mean()) or 1.0
    return factor, int(numbers[worst]), float(total[worst]) / others


def _worker(timeline: WorkerTimeline, worker: int) -> str:
    """Name a worker by its place."""
    parts = [f"data-parallel rank {timeline.replica[worker]}"]
    if timeline.stage.max() > 0:
        parts.append(f"stage {timeline.stage[worker]}")
    return " of ".join(reversed(parts))
