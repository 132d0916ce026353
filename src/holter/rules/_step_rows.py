"""The rows of one step brought together, however windows cut them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from holter.rules._numbers import Numbers


@dataclass(slots=True)
class StepRows:
    """What was recorded of tensors at one step of one rank and mode."""

    rank: int
    step: int
    mode: str
    tables: Mapping[str, Table]
    numbers: Numbers | None = None
    """The logged numbers of the rule's kind, where it asks for some."""
    judged: set[str] = field(default_factory=set)
    """The tensors that the rule judged."""

    def number(self) -> float | None:
        """Return the logged number that held at this step."""
        return None if self.numbers is None else self.numbers.at(self.rank, self.step)

    @property
    def rows(self) -> int:
        """How many rows of all tables."""
        return sum(table.rows for table in self.tables.values())

    @property
    def place(self) -> dict[str, Any]:
        """Node and times, for an issue."""
        filled = [t for t in self.tables.values() if t.rows]
        nodes = sorted({str(n) for t in filled for n in t["node"].tolist()})
        return {
            "node": nodes[0] or None if nodes else None,
            "time_start": min(int(t["time"].min()) for t in filled),
            "time_end": max(int(t["time"].max()) for t in filled),
        }


def complete_steps(new: Mapping[str, Table], state: dict[str, Any], *, ended: bool) -> Iterator[StepRows]:
    """Yield the steps that are whole, each rank's in the order of time.

    A step is whole once a row of another step of its rank has come, or the job has ended; until then its rows
    wait in `state["waiting"]`. A window is cut at a moment, so what is yielded does not depend on the cuts.

    Args:
        new: The new rows of each table; all have time, rank, step, mode and node.
        state: The rule's own, as JSON can hold it.
        ended: Whether nothing will come any more.
    """
    waiting: dict[str, dict[str, list[Any]]] = state.get("waiting", {})
    tables = {name: _joined(waiting.get(name), rows) for name, rows in new.items()}
    keys = _keys(list(tables.values()))
    if not len(keys):
        return
    # Sorted by rank, then time, then step and mode: a run of one step ends where another begins.
    order = np.lexsort((keys[:, 3], keys[:, 2], keys[:, 1], keys[:, 0]))
    ordered = keys[order]
    begins = np.ones(len(ordered), dtype=bool)
    begins[1:] = np.any(ordered[1:][:, [0, 2, 3]] != ordered[:-1][:, [0, 2, 3]], axis=1)
    runs = np.empty(len(keys), dtype=np.int64)
    runs[order] = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    ranks = ordered[first, 0]
    last = np.append(ranks[1:] != ranks[:-1], True)
    edges = np.cumsum([0, *(t.rows for t in tables.values())])
    split = {
        name: _split(table, runs[low:high], len(first))
        for (name, table), low, high in zip(tables.items(), edges[:-1], edges[1:], strict=True)
    }
    left: dict[str, list[Table]] = {name: [] for name in tables}
    for run in range(len(first)):
        parts = {name: one[run] for name, one in split.items()}
        if last[run] and not ended:
            for name, part in parts.items():
                left[name].append(part)
            continue
        some = next(part for part in parts.values() if part.rows)
        yield StepRows(int(ranks[run]), int(some["step"][0]), str(some["mode"][0]), parts)
    state["waiting"] = {
        name: {c: v.tolist() for c, v in Table.concat(parts).columns.items()}
        for name, parts in left.items()
        if sum(part.rows for part in parts)
    }


def _joined(waiting: Mapping[str, list[Any]] | None, rows: Table) -> Table:
    if not waiting:
        return rows
    before = Table({name: np.array(waiting[name], dtype=c.dtype) for name, c in rows.columns.items()})
    return Table.concat([before, rows])


def _keys(tables: list[Table]) -> NDArray[np.int64]:
    """Return rank, time, step and a number for the mode of each row of all tables."""
    modes = {mode: i for i, mode in enumerate(sorted({m for t in tables for m in set(t["mode"].tolist())}))}
    parts = [
        np.column_stack(
            [
                t["rank"],
                t["time"],
                t["step"],
                np.fromiter(map(modes.__getitem__, t["mode"].tolist()), np.int64, t.rows),
            ]
        ).astype(np.int64)
        for t in tables
    ]
    return np.concatenate(parts) if parts else np.empty((0, 4), dtype=np.int64)


def _split(table: Table, runs: NDArray[np.int64], count: int) -> list[Table]:
    if table.rows > 1 and np.any(runs[1:] < runs[:-1]):
        order = np.argsort(runs, kind="stable")
        table, runs = table.where(order), runs[order]
    edges = np.searchsorted(runs, np.arange(count + 1)).tolist()
    return [table.where(slice(low, high)) for low, high in itertools.pairwise(edges)]
