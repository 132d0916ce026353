"""Separates the trainings of a job that run one after another, and the models of a training process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.events import details
from holter.analysis.steps.warmup import by_rank
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


def models(events: Table | None) -> dict[int, list[tuple[int, str]]]:
    """Return rank → the steps from which a model trains, and the model."""
    found: dict[int, list[tuple[int, str]]] = {}
    for row, detail in details(events, "model"):
        step, model = detail.get("step"), detail.get("model")
        if isinstance(step, int) and isinstance(model, str):
            found.setdefault(row["rank"], []).append((step, model))
    return found


def by_model(
    steps: Table, rows: NDArray[np.int64], models: Mapping[int, Sequence[tuple[int, str]]]
) -> list[NDArray[np.int64]]:
    """Return the rows of each model that a rank trains; the model that trains last comes last.

    Args:
        steps: Table `steps`.
        rows: The rows of one rank, in order of time.
        models: As `models` returns them.
    """
    begun = sorted(models.get(int(steps["rank"][rows[0]]), ())) if len(rows) else []
    numbers = {model: number for number, (_, model) in enumerate(begun)}
    if len(numbers) < 2:
        return [rows]
    at = np.searchsorted([step for step, _ in begun], steps["step"][rows], side="right") - 1
    model = np.array([numbers[name] for _, name in begun])[np.maximum(at, 0)]
    parts = [np.flatnonzero(model == number) for number in np.unique(model)]
    return [rows[part] for part in sorted(parts, key=lambda part: int(part[-1]))]


def begins(steps: Table) -> list[int]:
    """Return when each training of the job began, ns: where the lowest rank counts its steps from 0 again.

    A training that was restarted after a failure counts as another one.
    """
    for rows in by_rank(steps):
        again = np.flatnonzero(np.diff(steps["step"][rows]) < 0) + 1
        return [int(steps["time"][rows[at]]) for at in (0, *again.tolist())]
    return []


def step_counts(steps: Table) -> list[int]:
    """Return how many steps each training of the job took on its lowest rank."""
    starts = begins(steps)
    if not starts:
        return []
    times = steps["time"][steps["rank"] == steps["rank"].min()]
    which = np.searchsorted(starts, times, side="right") - 1
    return [int(count) for count in np.bincount(which, minlength=len(starts))]


def told_apart(scalars: Table, starts: Sequence[int]) -> Table:
    """Add the training's number to the names of scalars if a job has several trainings."""
    if len(starts) < 2 or not scalars.rows:
        return scalars
    which = np.maximum(np.searchsorted(starts, scalars["time"], side="right"), 1)
    names = [f"{name} (training {at})" for name, at in zip(scalars["name"], which.tolist(), strict=True)]
    columns = {name: scalars[name] for name in scalars.names}
    return Table(columns | {"name": np.array(names, dtype=object)})


def restarted(events: Table | None) -> bool:
    """Return whether all trainings of a job, if several, are attempts of one run, which was restarted.

    A run has one name on each node: that of Ray Train's run, or of the torchrun that started the process.
    """
    runs: dict[tuple[object, object], object] = {}
    for row, detail in details(events, "process", "rank"):
        if row["kind"] == "rank" or detail.get("role") == "trainer":
            process = row.get("node"), detail.get("process")
            runs[process] = detail.get("run") or runs.get(process)
    names = {(node, run) for (node, _), run in runs.items()}
    return bool(names) and len(names) == len({node for node, _ in names}) and None not in runs.values()


def workers_began(events: Table | None) -> int | None:
    """Return when the first worker of Ray Train ran, ns since the epoch; None for other jobs.

    Only workers of Ray Train tell a run together with their rank.
    """
    began: dict[tuple[object, object], int] = {}
    workers = set()
    for row, detail in details(events, "process", "rank"):
        process = row.get("node"), detail.get("process")
        if row["kind"] == "rank" and detail.get("run"):
            workers.add(process)
        elif isinstance(wall := detail.get("wall"), int):
            began[process] = wall
    return min((began[one] for one in workers & began.keys()), default=None)


def left_out(events: Table | None) -> list[str]:
    """Return what ran beside the recorded training and is not part of the job, such as trials of Ray Tune."""
    kinds: dict[str, set[str]] = {}
    for _, detail in details(events, "left_out"):
        kinds.setdefault(str(detail.get("kind")), set()).add(str(detail.get("name")))
    return [f"{len(names):,} other {_several(kind, len(names))}" for kind, names in sorted(kinds.items())]


def _several(kind: str, count: int) -> str:
    noun, of, rest = kind.partition(" of ")
    return f"{noun}{'' if count == 1 else 's'}{of}{rest}"
