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
            "clock, signal, control, nonfinite.",
        ),
        Column("name", "VARCHAR", "Which one; a short text."),
        Column("detail", "VARCHAR", "A JSON object with everything else."),
    ),
)


def _statistic(name: str, meaning: str) -> Column:
    return Column(name, "FLOAT", meaning, nullable=True)


_TENSOR = Column("name", "VARCHAR", "Which tensor, as `fc1.weight`, `gradient/fc1.weight`, `relu1_output_0`.")

TENSORS = TableSchema(
    "tensors",
    "Statistics of one tensor at one step; elements that are not finite are counted, and left out of the rest.",
    (
        _TIME,
        _RANK,
        _STEP,
        _MODE,
        _TENSOR,
        Column(
            "role",
            "VARCHAR",
            "weight, bias, norm_param, embedding, grad, act_in:FUNCTION, act_out:FUNCTION, model_input:K, token_ids, "
            "logits, predictions, labels, loss, input, output, opt_state, or what the user called it.",
        ),
        Column(
            "state",
            "VARCHAR",
            "frozen: takes no gradient; unused: got none; skipped: a scaler skipped the step.",
        ),
        Column("count", "BIGINT", "Elements."),
        Column("nan", "BIGINT", "Elements that are not a number."),
        Column("posinf", "BIGINT", "Elements that are plus infinity."),
        Column("neginf", "BIGINT", "Elements that are minus infinity."),
        Column("zeros", "BIGINT", "Elements that are zero."),
        Column(
            "tiny",
            "BIGINT",
            "Elements that are not zero, and below the smallest normal number of their type.",
        ),
        _statistic("min", "Smallest element."),
        _statistic("max", "Largest element."),
        _statistic("mean", "Mean."),
        _statistic("std", "Standard deviation, of the elements as a whole population."),
        _statistic("abs_mean", "Mean of the absolute values."),
        _statistic("q05", "Quantile 0.05."),
        _statistic("q50", "Median."),
        _statistic("q95", "Quantile 0.95."),
        _statistic("delta_l2", "Euclidean norm of the change since this parameter's last row."),
        _statistic("delta_abs_mean", "Mean absolute change since this parameter's last row."),
        _statistic("delta_max", "Largest absolute change since this parameter's last row."),
        Column("fingerprint", "BIGINT", "Hash of the bytes; 0 when none was taken."),
    ),
)

TENSOR_VALUES = TableSchema(
    "tensor_values",
    "One element of what a tensor is described by at one step: a small tensor's own values, a histogram, its units.",
    (
        _TIME,
        _RANK,
        _STEP,
        _MODE,
        _TENSOR,
        Column(
            "kind",
            "VARCHAR",
            "value: the tensor itself, flattened; shape: its sizes; histogram: counts of equal bins from min to max; "
            "exponents: counts by floor(log2|x|) from -64 up, all below and above in the outer two; active: per unit, "
            "samples in which it was active since the last row; samples: how many samples those were.",
        ),
        Column("position", "INTEGER", "Place of the element."),
        Column("value", "DOUBLE", "The element."),
    ),
)

_THREAD = Column("thread", "BIGINT", "Thread that did it.")
_DEVICE = Column("device", "SMALLINT", "Index of the accelerator in its node.")
_STREAM = Column("stream", "INTEGER", "Stream of the accelerator.")
_CORRELATION = Column(
    "correlation", "BIGINT", "Number that a launch shares with what it launched; 0 for none."
)

KERNELS = TableSchema(
    "kernels",
    "One kernel that ran on an accelerator, within a profiling window or from an imported trace.",
    (
        _TIME,
        _DURATION,
        _RANK,
        _DEVICE,
        _STREAM,
        _STEP,
        Column("name", "VARCHAR", "Its name."),
        Column("kind", "VARCHAR", "compute or communication."),
        Column("collective", "VARCHAR", "Which collective: allreduce, allgather, ...; empty for compute."),
        Column("process_group", "VARCHAR", "Process group of the collective."),
        Column("group_size", "INTEGER", "Ranks in that group; 0 when unknown."),
        Column("bytes", "BIGINT", "Bytes the collective moves; 0 when unknown.", "bytes"),
        _CORRELATION,
    ),
)

LAUNCHES = TableSchema(
    "launches",
    "One call by which the host asked an accelerator for a kernel, a copy or a fill.",
    (
        _TIME,
        _DURATION,
        _RANK,
        _THREAD,
        _STEP,
        Column("name", "VARCHAR", "The function called."),
        _CORRELATION,
    ),
)

MEMORY_OPERATIONS = TableSchema(
    "memory_operations",
    "One copy or fill of memory by an accelerator.",
    (
        _TIME,
        _DURATION,
        _RANK,
        _DEVICE,
        _STREAM,
        _STEP,
        Column("kind", "VARCHAR", "h2d, d2h, d2d, p2p, h2h or memset."),
        Column("memory", "VARCHAR", "pageable or pinned, of the host's side; empty when unknown."),
        Column("bytes", "BIGINT", "Bytes moved or set.", "bytes"),
        _CORRELATION,
    ),
)

SYNCS = TableSchema(
    "syncs",
    "One stretch in which the host waited for an accelerator.",
    (
        _TIME,
        _DURATION,
        _RANK,
        _THREAD,
        _STEP,
        Column("kind", "VARCHAR", "stream, device, event or copy."),
        Column("name", "VARCHAR", "The function called, and where it was called from when that is known."),
    ),
)

OPERATORS = TableSchema(
    "operators",
    "One operator of the framework, or function of Python, on the host.",
    (
        _TIME,
        _DURATION,
        _RANK,
        _THREAD,
        _STEP,
        Column("name", "VARCHAR", "The operator."),
        Column("kind", "VARCHAR", "operator, python, annotation, module or runtime."),
        Column("detail", "VARCHAR", "Shapes, types, stack: a JSON object, or empty."),
    ),
)

TABLES: dict[str, TableSchema] = {
    table.name: table
    for table in (
        SAMPLES,
        SPANS,
        SCALARS,
        STEPS,
        EVENTS,
        TENSORS,
        TENSOR_VALUES,
        KERNELS,
        LAUNCHES,
        MEMORY_OPERATIONS,
        SYNCS,
        OPERATORS,
    )
}
