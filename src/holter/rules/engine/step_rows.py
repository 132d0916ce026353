"""All rows of one step of one rank, independent of where windows are cut.

A step of a rank is complete when that rank starts another step. `complete_steps` treats all ranks together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.rules.engine.table_json import State, TableJson, from_json, to_json
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from holter.rules.patterns.latest import Latest


@dataclass(slots=True)
class StepRows:
    """The tensor rows of one step of one rank and mode."""

    rank: int
    step: int
    mode: str
    tables: Mapping[str, Table]
    logged: Latest | None = None
    """The logged numbers that the rule looks up, if any."""
    judges: Table | None = None
    """The rows that the rule judged."""
    _judged: set[str] | None = field(default=None, init=False)

    def number(self) -> float | None:
        """Return the logged number at this step."""
        return None if self.logged is None else self.logged.at(self.rank, self.step)

    @property
    def judged(self) -> set[str]:
        """The names of the tensors that the rule judged; rules remove the ones that they skip."""
        if self._judged is None:
            self._judged = set() if self.judges is None else set(self.judges["name"].tolist())
        return self._judged

    @property
    def place(self) -> dict[str, str | int | None]:
        """Node and times, for an issue."""
        filled = [t for t in self.tables.values() if t.rows]
        nodes = sorted({str(n) for t in filled for n in t["node"].tolist()})
        return {
            "node": nodes[0] or None if nodes else None,
            "time_start": min(int(t["time"].min()) for t in filled),
            "time_end": max(int(t["time"].max()) for t in filled),
        }


@dataclass(slots=True)
class RankSteps:
    """The steps that are complete now, grouped by rank and in the order of time."""

    places: list[tuple[int, int, str]]
    """Rank, step and mode of each step."""
    tables: Mapping[str, Table]
    """The rows of all steps, step by step."""
    edges: Mapping[str, NDArray[np.int64]]
    """Where the rows of each step begin in each table, and where those of the last end."""

    def __iter__(self) -> Iterator[StepRows]:
        cuts = {name: edges.tolist() for name, edges in self.edges.items()}
        for i, (rank, step, mode) in enumerate(self.places):
            parts = {
                name: table.where(slice(cuts[name][i], cuts[name][i + 1]))
                for name, table in self.tables.items()
            }
            yield StepRows(rank, step, mode, parts)


def by_step(function: np.ufunc, values: NDArray[Any], edges: NDArray[np.int64]) -> NDArray[Any]:
    """Return for each row the reduction of all rows of its step, as `np.fmax` for the largest."""
    counts = np.diff(edges)
    some = counts > 0
    return np.repeat(function.reduceat(values, edges[:-1][some]), counts[some]) if some.any() else values


def rank_steps(new: Mapping[str, Table], state: State, *, ended: bool) -> RankSteps:
    """Return the steps that are complete.

    A step is complete once there is a row of another step of its rank, or the job has ended; until then its
    rows wait in `state["waiting"]`. The result does not depend on where windows are cut.

    Args:
        new: The new rows of each table; all have time, rank, step, mode and node.
        state: The rule's state.
        ended: Whether the job has ended.
    """
    waiting: dict[str, TableJson] = state.get("waiting", {})
    tables = {
        name: Table.concat([from_json(waiting[name], rows), rows]) if name in waiting else rows
        for name, rows in new.items()
    }
    rank, time, step = (
        np.concatenate([t[name] for t in tables.values()]).astype(np.int64)
        for name in ("rank", "time", "step")
    )
    modes, mode = _coded([text for t in tables.values() for text in t["mode"].tolist()])
    order = np.lexsort((mode, step, time, rank))
    # A run of one step ends where another begins.
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = False
    for key in (rank, step, mode):
        begins[1:] |= key[order[1:]] != key[order[:-1]]
    first = order[begins]
    last = np.ones(len(first), dtype=bool)
    last[:-1] = rank[first[1:]] != rank[first[:-1]]
    done = np.full(len(first), True) if ended else ~last
    # Complete steps have numbers of their own; all others share the next number.
    number = np.where(done, np.cumsum(done) - 1, int(done.sum()))
    runs = np.empty(len(order), dtype=np.int64)
    runs[order] = number[np.cumsum(begins) - 1]
    whole, edges, later, low = {}, {}, {}, 0
    for name, table in tables.items():
        whole[name], edges[name], rest = _split(table, runs[low : low + table.rows], int(done.sum()))
        low += table.rows
        later[name] = to_json(rest)
    state["waiting"] = {name: rest for name, rest in {**waiting, **later}.items() if rest["rows"]}
    columns = (rank[first[done]].tolist(), step[first[done]].tolist(), mode[first[done]].tolist())
    places = [(r, s, modes[m]) for r, s, m in zip(*columns, strict=True)]
    return RankSteps(places, whole, edges)


def _coded(texts: list[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct texts in order, and the index of each text."""
    known = sorted(set(texts))
    code = {text: i for i, text in enumerate(known)}
    return known, np.fromiter(map(code.__getitem__, texts), np.int64, len(texts))


def _split(table: Table, runs: NDArray[np.int64], count: int) -> tuple[Table, NDArray[np.int64], Table]:
    """Return the rows of the first `count` runs, run by run, the edges of the runs, and the other rows."""
    order = np.argsort(runs, kind="stable")
    edges = np.searchsorted(runs[order], np.arange(count + 1))
    return table.where(order[: edges[-1]]), edges, table.where(order[edges[-1] :])
