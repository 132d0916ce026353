"""Table `steps` of a long job, whose parts stay in the store until they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numpy.typing import NDArray

    from holter.store.trial import Trial

LONG = 1_000_000
"""From this number of steps on, parts are read when they are asked for."""
_PARTS = tuple(part for part in BREAKDOWN if part not in ("checkpoint", "eval"))
_KEY = ("time", "rank", "step")
_FEW = 4
"""Of at most one in so many rows, the parts are looked up; of more, whole columns are read."""


class StoredSteps(Table):
    """Table `steps` with the times of all steps. Parts are read of the steps of which they are asked for."""

    __slots__ = ("_newer", "_trial")

    def __init__(self, trial: Trial) -> None:
        kept = [name for name in Table.empty("steps").names if name not in _PARTS]
        super().__init__(trial.table("steps", columns=kept).columns)
        self._trial = trial
        self._newer = Table.empty("steps")
        """The last rows, which were not in the store when the others were read."""

    def followed_by(self, newer: Table) -> StoredSteps:
        """Return these steps and newer ones, which are in memory."""
        found = StoredSteps.__new__(StoredSteps)
        columns = {name: Table({name: self[name]}) for name in self._columns}
        Table.__init__(
            found,
            {name: Table.concat([one, Table({name: newer[name]})])[name] for name, one in columns.items()},
        )
        found._trial, found._newer = self._trial, Table.concat([self._newer, newer])
        return found

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns by name."""
        return {name: self[name] for name in self.names}

    @property
    def names(self) -> Collection[str]:
        """Names of the columns, in order."""
        return Table.empty("steps").names

    def __getitem__(self, name: str) -> NDArray[Any]:
        if self.reads(name):
            read = self._trial.table("steps", columns=(*_KEY, name), end_ns=self._end)
            # The files of a running job may have been merged meanwhile, and new steps may be there.
            if all(np.array_equal(read[one], self[one][: self._stored]) for one in _KEY):
                self._columns[name] = np.concatenate([read[name], self._newer[name]])
            else:
                self._columns[name] = self._found((name,), np.arange(self.rows))[name]
        return super().__getitem__(name)

    def reads(self, name: str) -> bool:
        """Return whether a column is not in memory yet."""
        return name in _PARTS and name not in self._columns

    def selected(self, name: str, which: NDArray[Any] | slice) -> dict[str, NDArray[Any]]:
        """Return a column of some rows, and others that were read with it."""
        if not self.reads(name):
            return super().selected(name, which)
        rows = np.arange(self.rows)[which]
        if _FEW * len(rows) > self.rows:
            return super().selected(name, which)
        return self._found(tuple(filter(self.reads, _PARTS)), rows)

    def totals(self, names: Iterable[str], mask: NDArray[np.bool_]) -> dict[str, int]:
        """Return the sum of columns of integers over the rows that a mask selects."""
        asked = tuple(names)
        stored = tuple(filter(self.reads, asked))
        left = self.where(~mask)
        if not stored or _FEW * left.rows > self.rows:
            return super().totals(asked, mask)
        sums = ", ".join(f"coalesce(sum({name}), 0)::BIGINT AS {name}" for name in stored)
        found = self._trial.sql(
            f"SELECT count(*) AS rows, {sums} FROM steps WHERE time < {self._end}",  # noqa: S608
            end_ns=self._end,
        )
        if int(found["rows"][0]) != self._stored:  # a rank's new steps are among them
            return super().totals(asked, mask)
        known = super().totals([name for name in asked if name not in stored], mask)
        for name in stored:
            known[name] = int(found[name][0]) + int(self._newer[name].sum()) - int(left[name].sum())
        return {name: known[name] for name in asked}

    @property
    def _stored(self) -> int:
        """The number of the first rows, which are in the store."""
        return self.rows - self._newer.rows

    @property
    def _end(self) -> int:
        """After the begin of all steps that are in the store, ns."""
        return int(self["time"][: self._stored].max()) + 1

    def _found(self, names: tuple[str, ...], rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Look up columns of some rows by rank, time and number of their steps."""
        old = np.flatnonzero(rows < self._stored)
        wanted = {name: self[name][rows[old]] for name in _KEY}
        # A part that an older store does not have is 0, as in `Table`.
        parts = ", ".join(f"coalesce({name}, 0) AS {name}" for name in names)
        found = self._trial.sql(
            f"SELECT place, {parts} FROM wanted JOIN steps USING (time, rank, step)",  # noqa: S608
            more={"wanted": Table({**wanted, "place": old})},
        )
        if len(np.unique(found["place"])) < len(old):
            raise OSError("steps of the job were removed while they were read")
        new = rows >= self._stored
        columns = {name: np.empty(len(rows), np.int64) for name in names}
        for name, column in columns.items():
            column[found["place"]] = found[name]
            column[new] = self._newer[name][rows[new] - self._stored]
        return columns
