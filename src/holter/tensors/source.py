"""The tensors of one job as they are read: what there is, which steps are complete, the rows of each."""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.table import Table
from holter.schema.tables import TABLES
from holter.store.follow import Follow
from holter.store.parquet.queries import literal
from holter.store.reader import retried
from holter.store.saved_tensors import SavedTensors
from holter.store.tensors_json import StoredCollections, read_told
from holter.tensors.completeness import WINDOW, Completeness, StepState
from holter.tensors.errors import NoMoreData, StepNotYetAvailable, StepUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from numpy.typing import NDArray

    from holter.store.job import JobFolder
    from holter.store.saved_tensors import Writing

_KEPT = 1024
"""Tensors whose rows are kept in memory."""
_LOOK_S = 10.0
SILENT_S = 180.0
"""A running job in which no file changes for so long is taken for dead: its agent writes every minute."""


class Source:
    """One job's tensors. Every question looks first at what is new, until the job has ended."""

    def __init__(
        self, folder: JobFolder, *, steps: tuple[int | None, int | None] | None = None, window: int = WINDOW
    ) -> None:
        """Open a job's tensors; `steps`: the first to read and one after the last, None for no limit."""
        self.folder = folder
        self.saved = SavedTensors(folder)
        self.told = StoredCollections()
        self.completeness = Completeness(window)
        self.refreshing = True
        """Whether questions look at what is new; see `frozen`."""
        self._first, self._after = steps or (None, None)
        self._limited = steps is not None
        self._known = False
        self._rows: OrderedDict[str, tuple[Follow, Table]] = OrderedDict()

    def refresh(self) -> None:
        """Take in what came since the last look, unless the job has ended or the reader is frozen."""
        if self._known and (not self.refreshing or self.completeness.loaded):
            return
        # The end first: whoever writes it has written all rows before.
        ended = self.folder.manifest().get("end") is not None
        told = read_told(self.folder)
        grown = self.saved.refresh() or told.ranks != self.told.ranks or not self._known
        self.told = told
        self._known = True
        if not (grown or ended or self.completeness.behind):
            return
        ranks: Mapping[tuple[int, str], Set[int]] = self.saved.ranks
        if self._limited:
            ranks = {key: who for key, who in ranks.items() if self.within(key[0])}
        expected = set(self.told.ranks).union(*ranks.values())
        self.completeness.update(ranks, expected, ended=ended)

    def refresh_names(self) -> None:
        """Take in the names of tensors and collections only, which is much quicker after many steps."""
        if self.refreshing and not self.completeness.loaded:
            self.told = read_told(self.folder)
            self.saved.refresh_names()

    @contextlib.contextmanager
    def frozen(self, frozen: bool = True) -> Iterator[Source]:
        """Do not look for new data within the block (or do, with `frozen=False`), whatever ends it."""
        if not self._known:
            self.refresh()
        before, self.refreshing = self.refreshing, not frozen
        try:
            yield self
        finally:
            self.refreshing = before

    def within(self, step: int) -> bool:
        """Tell whether a step is among those that are read."""
        return (self._first is None or step >= self._first) and (self._after is None or step < self._after)

    @property
    def names(self) -> list[str]:
        """Names of the tensors saved so far, in order."""
        self.refresh_names()
        return sorted(self.saved.names)

    def names_at(self, where: str, step: int | None, mode: str | None) -> set[str]:
        """Return names saved in rows for which a condition holds, or raw at that step and mode."""
        reader = self.saved.reader

        def ask(table: str) -> set[tuple[Any, ...]]:
            return reader.distinct(reader.files(table), TABLES[table], ["name"], where)

        if step is not None and not self.within(step):
            return set()
        named = [self.saved.raw_names(writing) for writing in self.saved.raw_at(step, mode)]
        rows = [retried(partial(ask, table)) for table in ("tensors", "tensor_values")]
        return set().union(*named, *({name for (name,) in found} for found in rows))

    def rows(self, name: str) -> Table:
        """Return all rows of table `tensors` of one tensor, by step, mode and rank."""
        if "\x00" in name:  # which cannot stand in a query
            return Table.empty("tensors")
        if name not in self._rows:
            self._rows[name] = (Follow(self.folder, reader=self.saved.reader), Table.empty("tensors"))
            complete = False
        else:
            self._rows.move_to_end(name)
            complete = self.completeness.loaded or not self.refreshing
        follow, known = self._rows[name]
        if not complete:
            new = follow.new("tensors", where=f"name = {literal(name)}")
            if new.rows:
                known = Table.concat([known, new]) if known.rows else new
                known = known.sorted("step", "mode", "rank", "time")
            self._rows[name] = (follow, known)
        if len(self._rows) > _KEPT:
            self._rows.popitem(last=False)
        return self._visible(known)

    def table(self, table: str, columns: Sequence[str] | None = None, where: str | None = None) -> Table:
        """Read the rows of a table for which an SQL condition holds."""
        reader = self.saved.reader
        return self._visible(
            retried(lambda: reader.read(reader.files(table), TABLES[table], columns=columns, where=where))
        )

    def elements(self, name: str, writing: Writing, kind: str) -> NDArray[Any]:
        """Return what a tensor is described by in `tensor_values` at one step, in order, if it is."""
        if name not in self.saved.valued:
            return np.empty(0)
        step, mode, rank = writing
        where = f"name = {literal(name)} AND kind = {literal(kind)} AND step = {step}"
        where += f" AND mode = {literal(mode)} AND rank = {rank}"
        rows = self.table("tensor_values", ("position", "value"), where).sorted("position")
        return np.asarray(rows["value"])

    def _visible(self, table: Table) -> Table:
        """Keep the rows of steps that may be seen: in range and, when frozen, known."""
        if not table.rows or (self.refreshing and not self._limited):
            return table
        self.refresh()
        known = set(self.completeness.steps(incomplete=True))
        steps, where = np.unique(table["step"], return_inverse=True)
        seen = np.array([step in known for step in steps.tolist()], dtype=bool)
        return table.where(seen[where])

    def state(self, step: int, mode: str | None = None, *, own: bool = False) -> StepState:
        """Tell whether a step is there; `own`: it is given by the mode's own count."""
        self.refresh()
        return self.completeness.state(step, mode, self.counted(mode) if own else None)

    def awaited(self, name: str | None, step: int) -> bool:
        """Tell whether rows of a tensor, or of any, may still come to a step that is complete."""
        return not self.completeness.loaded and self.saved.awaited(name, step)

    def counted(self, mode: str | None) -> dict[int, int] | None:
        """Return a mode's own count of its steps → the global step, if the job tells them apart."""
        counted = self.told.mode_steps.get(mode or "")
        return dict(counted) if counted else None

    def wait(
        self,
        steps: Sequence[int],
        mode: str | None = None,
        *,
        own: bool = False,
        timeout_s: float | None = None,
        poll_s: float = 0.5,
    ) -> None:
        """Wait until all of some steps are complete.

        Raises:
            StepUnavailable: One of them was skipped.
            NoMoreData: The job ended before it.
            StepNotYetAvailable: The time is up, or the job seems dead.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        look = time.monotonic()
        with self.frozen(False):
            for step in sorted(steps):
                while (state := self.state(step, mode, own=own)) is not StepState.AVAILABLE:
                    if state is StepState.UNAVAILABLE:
                        raise self._never(step, mode, own)
                    if time.monotonic() >= look:
                        look = time.monotonic() + _LOOK_S
                        self._check_alive(step, mode)
                    if until is not None and time.monotonic() >= until:
                        raise StepNotYetAvailable(step, mode, f"waited {timeout_s:g} s")
                    time.sleep(poll_s)

    def _check_alive(self, step: int, mode: str | None) -> None:
        silent = time.time() - self.folder.place.changed_ns() / 1e9
        if silent > SILENT_S:
            why = f"nothing of the job has changed for {silent:.0f} s: it seems dead"
            raise StepNotYetAvailable(step, mode, why)

    def _never(self, step: int, mode: str | None, own: bool) -> Exception:
        steps: Any = self.completeness.steps(mode, incomplete=True)
        counted = self.counted(mode) if own else None
        if counted is not None:
            steps = sorted(own_step for own_step, step_ in counted.items() if step_ in set(steps))
        if self.completeness.loaded and (not steps or step > steps[-1]):
            return NoMoreData(step, mode, steps[-1] if steps else None)
        return StepUnavailable(step, mode, self.neighbors(step, steps))

    @staticmethod
    def neighbors(step: int, steps: Sequence[int]) -> str:
        """Say in words which steps around one there are."""
        before = [s for s in steps if s < step][-1:]
        after = [s for s in steps if s > step][:1]
        listed = " and ".join(map(str, before + after))
        return f"saved next to it: {listed}" if listed else "nothing was saved in this mode"
