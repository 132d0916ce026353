"""Rows of steps that nothing more will be added to, however live windows cut them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

LAG = 2
"""A step is settled once a row of a step this much later has come: ranks in step are at most one apart."""


class Settled(NamedTuple):
    """Settled rows of one attempt, ordered by step; a later attempt went back to an earlier step."""

    attempt: int
    rows: Table

    def steps(self) -> Iterator[tuple[int, Table]]:
        """Yield each step with its rows, earliest first."""
        step = self.rows["step"]
        edges = np.flatnonzero(np.diff(step, prepend=step[:1] - 1)).tolist() if len(step) else []
        for low, high in zip(edges, [*edges[1:], len(step)], strict=True):
            yield int(step[low]), self.rows.where(slice(low, high))


def settled(new: Table, state: dict[str, Any], columns: Sequence[str], *, ended: bool) -> list[Settled]:
    """Return the rows of steps that are settled now; the others wait in `state`, late ones are left out.

    What is settled depends on the rows in the order of time alone, so not on where windows are cut. A rank
    whose step goes back (it was started again from a checkpoint) begins another attempt.

    Args:
        new: Rows that no window held before; at least time, rank and step.
        state: A place of its own in the rule's state.
        columns: What is kept of a row, besides time, rank and step.
        ended: Whether nothing will come any more.
    """
    if not new.rows and not (ended and state.get("waiting")):
        return []
    wanted = ("step", "rank", "time", *columns)
    rows = _ordered(Table({name: new[name] for name in wanted}), ("time", "rank", "step", *columns))
    nothing = rows.where(np.zeros(rows.rows, dtype=bool))
    kept: dict[str, list[Any]] = state.get("waiting", {})
    waiting = Table({name: np.array(kept.get(name, []), dtype=rows[name].dtype) for name in wanted})
    last: dict[str, int] = state.get("last", {})
    newest, attempt = int(state.get("newest", -(2**40))), int(state.get("attempt", 0))
    edges = [0, *_restarts(rows["rank"].tolist(), rows["step"].tolist(), last), rows.rows]
    found = []
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        if i:
            found.append(Settled(attempt, _ordered(waiting, wanted)))
            waiting, newest, attempt = nothing, -(2**40), attempt + 1
        part = rows.where(np.arange(low, high))
        seen = np.maximum.accumulate(np.concatenate([[newest], part["step"].astype(np.int64)]))
        waiting = Table.concat([waiting, part.where(part["step"] + LAG > seen[:-1])])
        newest = int(seen[-1])
        done = np.full(waiting.rows, ended and i == len(edges) - 2) | (waiting["step"] + LAG <= newest)
        found.append(Settled(attempt, _ordered(waiting.where(done), wanted)))
        waiting = waiting.where(~done)
    state.update(newest=newest, attempt=attempt, last=last)
    state["waiting"] = {name: column.tolist() for name, column in waiting.columns.items()}
    return [one for one in found if one.rows.rows]


def _restarts(ranks: list[int], steps: list[int], last: dict[str, int]) -> list[int]:
    """Return where an attempt begins; `last`, each rank's newest step in it, is brought up to date."""
    found = []
    for i, (rank, step) in enumerate(zip(map(str, ranks), steps, strict=True)):
        if step < last.get(rank, step):
            found.append(i)
            last.clear()
        last[rank] = step
    return found


def _ordered(rows: Table, by: Sequence[str]) -> Table:
    """Sort by columns, the first one first, so that equal rows alone can change places."""
    keys: list[NDArray[Any]] = []
    for name in reversed(by):
        column = rows[name]
        keys.append(
            np.unique(column.astype(str), return_inverse=True)[1] if column.dtype == object else column
        )
    return rows.where(np.lexsort(keys)) if rows.rows > 1 else rows
