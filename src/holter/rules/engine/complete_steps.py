"""Rows of steps that nothing more will be added to, however live windows cut them.

A step is settled when all ranks, which train in step, are past it; `_step_rows` is for one rank by itself.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.rules.engine.table_json import from_json, to_json
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_PLACE = 3
"""So many keys say where a row belongs: step, rank and time."""
LAG = 2
"""A step is settled once a row of a step this much later has come: ranks in step are at most one apart."""


class CompleteSteps(NamedTuple):
    """CompleteSteps rows of one attempt, ordered by step; a later attempt went back to an earlier step."""

    attempt: int
    rows: Table

    def steps(self) -> Iterator[tuple[int, Table]]:
        """Yield each step with its rows, earliest first."""
        step = self.rows["step"]
        edges = np.flatnonzero(np.diff(step, prepend=step[:1] - 1)).tolist() if len(step) else []
        for low, high in zip(edges, [*edges[1:], len(step)], strict=True):
            yield int(step[low]), self.rows.where(slice(low, high))


def complete_steps(
    new: Table, state: dict[str, Any], columns: Sequence[str], *, ended: bool
) -> list[CompleteSteps]:
    """Return the rows of steps that are settled now; the others wait in `state`, late ones are left out.

    What is settled depends on the rows in the order of time alone, so not on where windows are cut. A rank
    whose step goes back (it was started again from a checkpoint) begins another attempt.

    Args:
        new: Rows that no window held before; at least time, rank and step.
        state: A place of its own in the rule's state.
        columns: What is kept of a row, besides time, rank and step.
        ended: Whether nothing will come any more.
    """
    if not new.rows and not (ended and state.get("waiting", {}).get("rows")):
        return []
    wanted = ("step", "rank", "time", *columns)
    rows = Table({name: new[name] for name in wanted}).sorted("time", "rank", "step")
    nothing = rows.where(np.zeros(rows.rows, dtype=bool))
    waiting = from_json(state.get("waiting"), rows)
    last: dict[str, int] = state.get("last", {})
    newest, attempt = int(state.get("newest", -(2**40))), int(state.get("attempt", 0))
    edges = [0, *_restarts(rows["rank"], rows["step"], last), rows.rows]
    found = []
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        if i:
            found.append(CompleteSteps(attempt, _ordered(waiting, wanted)))
            waiting, newest, attempt = nothing, -(2**40), attempt + 1
        part = rows.where(np.arange(low, high))
        seen = np.maximum.accumulate(np.concatenate([[newest], part["step"].astype(np.int64)]))
        waiting = Table.concat([waiting, part.where(part["step"] + LAG > seen[:-1])])
        newest = int(seen[-1])
        done = np.full(waiting.rows, ended and i == len(edges) - 2) | (waiting["step"] + LAG <= newest)
        found.append(CompleteSteps(attempt, _ordered(waiting.where(done), wanted)))
        waiting = waiting.where(~done)
    state.update(newest=newest, attempt=attempt, last=last)
    state["waiting"] = to_json(waiting)
    return [one for one in found if one.rows.rows]


def _restarts(ranks: NDArray[Any], steps: NDArray[Any], last: dict[str, int]) -> list[int]:
    """Return where an attempt begins; `last`, each rank's newest step in it, is brought up to date."""
    if _go_on(ranks, steps, last):
        return []
    found = []
    for i, (rank, step) in enumerate(zip(map(str, ranks.tolist()), steps.tolist(), strict=True)):
        if step < last.get(rank, step):
            found.append(i)
            last.clear()
        last[rank] = step
    return found


def _go_on(ranks: NDArray[Any], steps: NDArray[Any], last: dict[str, int]) -> bool:
    """Tell whether no rank's step goes back, as nearly always; then `last` is brought up to date."""
    if not len(ranks):
        return True
    order = np.argsort(ranks, kind="stable")
    ranks, steps = ranks[order], steps[order]
    begins = np.flatnonzero(np.concatenate([[True], ranks[1:] != ranks[:-1]]))
    back = steps[1:] < steps[:-1]
    back[begins[1:] - 1] = False
    names = [str(rank) for rank in ranks[begins].tolist()]
    starts = zip(names, steps[begins].tolist(), strict=True)
    if back.any() or any(step < last.get(name, step) for name, step in starts):
        return False
    ends = np.append(begins[1:], len(ranks)) - 1
    last.update(zip(names, steps[ends].tolist(), strict=True))
    return True


def _ordered(rows: Table, by: Sequence[str]) -> Table:
    """Sort by columns, the first one first, so that equal rows alone can change places."""
    if rows.rows < 2:
        return rows
    keys: list[NDArray[Any]] = []
    for name in by:
        column = rows[name]
        keys.append(_codes(column) if column.dtype == object else column)
        # Mostly the first few tell all rows apart. What is no number is unlike itself, so nothing after it.
        if len(keys) >= _PLACE and column.dtype.kind != "f":
            order = np.lexsort(keys[::-1])
            if not _twice(keys, order):
                return rows.where(order)
        elif column.dtype.kind == "f":
            break
    rest = [rows[name] for name in by[len(keys) :]]
    keys += [_codes(column) if column.dtype == object else column for column in rest]
    return rows.where(np.lexsort(keys[::-1]))


def _twice(keys: Sequence[NDArray[Any]], order: NDArray[np.int64]) -> bool:
    """Tell whether two rows are alike in all keys; alike, they stand beside one another in that order."""
    alike = np.ones(len(order) - 1, dtype=bool)
    for key in keys:
        ordered = key[order]
        alike &= ordered[1:] == ordered[:-1]
    return bool(alike.any())


def _codes(texts: NDArray[Any]) -> NDArray[np.int64]:
    """Return numbers in the order of texts, of which few are distinct."""
    listed = texts.tolist()
    code = {text: i for i, text in enumerate(sorted(set(listed)))}
    return np.fromiter(map(code.__getitem__, listed), np.int64, len(listed))
