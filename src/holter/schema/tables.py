"""Every table of the store: the one place to change what is stored."""

from __future__ import annotations

from dataclasses import dataclass

from holter.schema.phases import BREAKDOWN

SCHEMA_VERSION = 1


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


_TIME = Column("time", "BIGINT", "When it was or began, on the job's clock, since the epoch.", "ns")
_DURATION = Column("duration", "BIGINT", "How long it took.", "ns")
_RANK = Column("rank", "INTEGER", "Global rank of the training process.")
_STEP = Column("step", "INTEGER", "Global training step; -1 before the first.")
_MODE = Column("mode", "VARCHAR", "global, train, eval or predict.")

SAMPLES = TableSchema(
    "samples",
    "One reading of one system metric.",
    (
        _TIME,
        Column("device", "VARCHAR", "cpu3, gpu0, nvme0n1, eth0, a process role; empty for the whole node."),
        Column("metric", "VARCHAR", "Which metric; see `holter.schema.metrics`."),
        Column("value", "DOUBLE", "The reading, in the metric's unit."),
    ),
)

SPANS = TableSchema(
    "spans",
    "One timed stretch of work on one thread of one process.",
    (
        _TIME,
        _DURATION,
        _RANK,
        Column("worker", "SMALLINT", "Data-loader worker that did it; -1 for the training process itself."),
        Column("thread", "SMALLINT", "Index of the thread in its process; 0 is the main thread."),
        _STEP,
        _MODE,
        Column("phase", "VARCHAR", "What it is; see `holter.schema.phases.Phase`."),
        Column("name", "VARCHAR", "Which one: a module, an optimizer, an annotation, a stack."),
        Column("value", "DOUBLE", "What the phase says it is; absent when it says nothing.", nullable=True),
    ),
)

SCALARS = TableSchema(
    "scalars",
    "A number that training produced: loss, learning rate, what the user logs.",
    (
        _TIME,
        _RANK,
        _STEP,
        _MODE,
        Column("name", "VARCHAR", "Which number."),
        Column("value", "DOUBLE", "The number; NaN and infinities are kept as they are."),
    ),
)

STEPS = TableSchema(
    "steps",
    "One step of one rank, its wall time split into exclusive parts. Derived from spans.",
    (
        _TIME,
        _DURATION,
        _RANK,
        _STEP,
        _MODE,
        *(Column(part, "BIGINT", f"Exclusive time in {part}.", "ns") for part in BREAKDOWN),
        Column("compile", "BIGINT", "Time a compiler ran within the step, whichever part it fell in.", "ns"),
    ),
)

EVENTS = TableSchema(
    "events",
    "Something rare that happened to the job, to a process, or to holter itself.",
    (
        _TIME,
        Column("rank", "INTEGER", "Global rank it concerns; -1 when none.", nullable=False),
        Column(
            "kind",
            "VARCHAR",
            "process, framework, rank, loader, exception, end, exit, oom, hang, lost, stacks, fault, dropped, "
            "clock, signal, control.",
        ),
        Column("name", "VARCHAR", "Which one; a short text."),
        Column("detail", "VARCHAR", "A JSON object with everything else."),
    ),
)

TABLES: dict[str, TableSchema] = {t.name: t for t in (SAMPLES, SPANS, SCALARS, STEPS, EVENTS)}
