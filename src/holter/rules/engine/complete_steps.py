"""Complete steps: rows of steps that all ranks have passed, independent of where windows are cut.

Ranks train in step, so a step is complete when every rank is past it. `step_rows` treats each rank by itself.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.rules.engine.table_json import NO_ROWS, State, from_json, to_json
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

LAG = 2
"""A step is complete once there is a row of a step this much later: ranks in step are at most one apart."""


class CompleteSteps(NamedTuple):
    """Rows of the complete steps of one attempt, by step; a new attempt goes back to an earlier step."""

    attempt: int
    rows: Table

    def steps(self) -> Iterator[tuple[int, Table]]:
        """Yield each step with its rows, earliest first."""
        step = self.rows["step"]
        edges = np.flatnonzero(np.diff(step, prepend=step[:1] - 1)).tolist() if len(step) else []
        for low, high in zip(edges, [*edges[1:], len(step)], strict=True):
            yield int(step[low]), self.rows.where(slice(low, high))


def complete_steps(new: Table, state: State, columns: Sequence[str], *, ended: bool) -> list[CompleteSteps]:
    """Return the rows of steps that are complete now; others wait in `state`, and late rows are left out.

    The result depends only on the rows in the order of time, and not on where windows are cut. A rank
    whose step goes back (it was started again from a checkpoint) begins another attempt.

    Args:
        new: New rows, with at least time, rank and step.
        state: A dictionary in the rule's state that nothing else uses.
        columns: The columns to return besides time, rank and step.
        ended: Whether the job has ended.
    """
    if not new.rows and not (ended and state.get("waiting", NO_ROWS)["rows"]):
        return []
    wanted = ("step", "rank", "time", *columns)
    rows = Table({name: new[name] for name in wanted}).sorted("time", "rank", "step")
    nothing = rows.where(np.zeros(rows.rows, dtype=bool))
    waiting = from_json(state.get("waiting"), rows)
    last = state.get("last", {})
    newest, attempt = state.get("newest", -(2**40)), state.get("attempt", 0)
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
    """Return where attempts begin, and update `last`, each rank's newest step in the attempt."""
    found = []
    # Rows of one step of a rank mostly follow one another.
    begins = np.flatnonzero((np.diff(ranks, prepend=-2) != 0) | (np.diff(steps, prepend=-2) != 0))
    columns = begins.tolist(), ranks[begins].tolist(), steps[begins].tolist()
    for i, rank, step in zip(*columns, strict=True):
        if step < last.get(str(rank), step):
            found.append(i)
            last.clear()
        last[str(rank)] = step
    return found


def _ordered(rows: Table, by: Sequence[str]) -> Table:
    """Sort by all columns, so that the order of rows is unique except for equal rows."""
    keys = [_codes(rows[name]) if rows[name].dtype == object else rows[name] for name in reversed(by)]
    return rows.where(np.lexsort(keys))


def _codes(texts: NDArray[Any]) -> NDArray[np.int64]:
    """Return numbers in the order of texts, of which few are distinct."""
    listed = texts.tolist()
    code = {text: i for i, text in enumerate(sorted(set(listed)))}
    return np.fromiter(map(code.__getitem__, listed), np.int64, len(listed))
