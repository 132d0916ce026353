"""Reads the timeline of a parallel job: which worker, stage and step each operation belongs to."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.schema.table import NameCodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table

    Ints = NDArray[np.int64]

COMPUTE, COLLECTIVE, SEND, RECEIVE = range(4)

_KINDS = (
    (re.compile(r"recv|receive", re.IGNORECASE), RECEIVE),
    (re.compile(r"send", re.IGNORECASE), SEND),
    (
        re.compile(r"reduce|gather|scatter|broadcast|all.?to.?all|barrier|clip.*grad", re.IGNORECASE),
        COLLECTIVE,
    ),
)

_REPLICA = re.compile(r"\b(?:DP|data[ _-]?parallel|replica)(?:[ _-]?rank)?[ _:=#-]*\[?(\d+)", re.IGNORECASE)
_STAGE = re.compile(
    r"\b(?:PP|pipeline(?:[ _-]?(?:parallel|stage))?|stage)(?:[ _-]?rank)?[ _:=#-]*\[?(\d+)", re.IGNORECASE
)
_PART = re.compile(r"\b(?:TP|tensor[ _-]?parallel)(?:[ _-]?rank)?[ _:=#-]*\[?(\d+)", re.IGNORECASE)


class WorkerTimeline(NamedTuple):
    """Operations of the workers of a job. Times are from the begin of the operation's step, ns."""

    names: tuple[str, ...]
    name: Ints
    """Index into `names`."""
    worker: Ints
    replica: Ints
    """Of each worker: its data-parallel rank."""
    stage: Ints
    """Of each worker: its stage of the pipeline."""
    thread: Ints
    step: Ints
    """From 0 on, without gaps."""
    begin: Ints
    end: Ints

    @property
    def kind(self) -> Ints:
        """Whether each operation computes, sends, receives or is a collective."""
        return np.array([kind_of(name) for name in self.names])[self.name]

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(self.step.max()) + 1


def kind_of(name: str) -> int:
    """Return whether an operation of this name computes, sends, receives or is a collective."""
    return next((kind for pattern, kind in _KINDS if pattern.search(name)), COMPUTE)


def codes(*columns: Any) -> Ints:
    """Number the combinations of several columns, from 0 on."""
    found = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        _, of_column = np.unique(column, return_inverse=True)
        found = np.unique(found * (int(of_column.max(initial=0)) + 1) + of_column, return_inverse=True)[1]
    return found.ravel()


def timeline_of(operators: Table, tracks: Table) -> WorkerTimeline | None:
    """Return the timeline of workers of a parallel job; None if threads do not say their place in it.

    Args:
        operators: Table `operators` with the column `detail`, in which `step` is the number of a step.
        tracks: Table `tracks`: names of processes and threads, such as `DP rank 0` and `PP rank 1, compute`.
    """
    at = places(tracks)
    if len(set(at.values())) < 2 or not operators.rows:
        return None
    step = _steps(operators)
    keys = list(zip(operators["rank"].tolist(), operators["thread"].tolist(), strict=True))
    rows = np.flatnonzero(np.array([key in at for key in keys]) & (step >= 0))
    if not len(rows):
        return None
    workers = sorted({at[keys[row]] for row in rows.tolist()})
    number = {place: i for i, place in enumerate(workers)}
    begin = operators["time"][rows].astype(np.int64)
    end = begin + operators["duration"][rows]
    _, step = np.unique(step[rows], return_inverse=True)
    first = np.full(int(step.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, step, begin)
    names = NameCodes()
    name = names.codes(operators["name"][rows])
    thread = codes(operators["rank"][rows], operators["thread"][rows])
    return WorkerTimeline(
        tuple(names),
        np.asarray(name),
        np.array([number[at[keys[row]]] for row in rows.tolist()]),
        np.array([replica for replica, _, _ in workers]),
        np.array([stage for _, stage, _ in workers]),
        thread,
        step,
        begin - first[step],
        end - first[step],
    )


def places(tracks: Table) -> dict[tuple[int, int], tuple[int, int, int]]:
    """Return the data-parallel rank, stage and tensor-parallel rank of each thread whose name has them."""
    processes = tracks.where(tracks["kind"] == "process")
    around = {
        (rank, process): name
        for rank, process, name in zip(
            processes["rank"].tolist(), processes["process"].tolist(), processes["name"].tolist(), strict=True
        )
    }
    found = {}
    threads = tracks.where(tracks["kind"] == "thread")
    for row in threads.to_rows():
        label = f"{around.get((row['rank'], row['process']), '')}, {row['name']}"
        numbers = [match and int(match[1]) for match in (p.search(label) for p in (_REPLICA, _STAGE, _PART))]
        if numbers[0] is not None or numbers[1] is not None:
            found[row["rank"], row["thread"]] = (numbers[0] or 0, numbers[1] or 0, numbers[2] or 0)
    return found


def _steps(operators: Table) -> Ints:
    """Return the step of each operator, from its detail if the trace has no marks of steps; -1 if unknown."""
    known: dict[str, int] = {}
    for text in operators["detail"].tolist():
        if text not in known:
            known[text] = _step(text)
    found = np.array([known[text] for text in operators["detail"].tolist()], dtype=np.int64)
    return np.where(found < 0, operators["step"], found)


def _step(text: str) -> int:
    try:
        detail = json.loads(text) if text else {}
    except (ValueError, RecursionError):  # a detail that was cut off
        return -1
    number = detail.get("step") if isinstance(detail, dict) else None
    return number if isinstance(number, int) and 0 <= number < 2**31 else -1
