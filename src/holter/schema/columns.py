"""Tables and columns as types, and the columns that many tables share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its DuckDB type, its unit, and what it means."""

    name: str
    type: str
    meaning: str
    unit: str = ""
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One table. `node` is not a column of the files: the path holds it, and readers add it."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        """Return the column called `name`; raises `KeyError` with the valid names."""
        for column in self.columns:
            if column.name == name:
                return column
        valid = ", ".join(c.name for c in self.columns)
        raise KeyError(f"table {self.name!r} has no column {name!r}; it has: {valid}")


TIME = Column("time", "BIGINT", "When it was or began, on the job's clock, since the epoch.", "ns")
DURATION = Column("duration", "BIGINT", "How long it took.", "ns")
RANK = Column("rank", "INTEGER", "Global rank of the training process.")
STEP = Column("step", "INTEGER", "Global training step; -1 before the first.")
MODE = Column("mode", "VARCHAR", "global, train, eval or predict.")

TIMED = (TIME, DURATION, RANK)
STEPPED = (TIME, RANK, STEP, MODE)
"""The columns that rows of a stretch of time, and rows of a moment in a step, begin with."""
