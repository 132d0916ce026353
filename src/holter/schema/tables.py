"""Every table of the store; those of windows and traces are in `traces`."""

from __future__ import annotations

from holter.schema.columns import MODE, RANK, STEP, STEPPED, TIME, TIMED, Column, TableSchema
from holter.schema.phases import BREAKDOWN
from holter.schema.traces import PYTHON, TRACES

SCHEMA_VERSION = 1


SAMPLES = TableSchema(
    "samples",
    "One reading of one system metric.",
    (
        TIME,
        Column("device", "VARCHAR", "cpu3, gpu0, nvme0n1, eth0, a process role; empty for the whole node."),
        Column("metric", "VARCHAR", "Which metric; see `holter.schema.metrics`."),
        Column("value", "DOUBLE", "The reading, in the metric's unit."),
    ),
)

SPANS = TableSchema(
    "spans",
    "One timed stretch of work on one thread of one process.",
    (
        *TIMED,
        Column("worker", "SMALLINT", "Data-loader worker that did it; -1 for the training process itself."),
        Column("thread", "SMALLINT", "Index of the thread in its process; 0 is the main thread."),
        STEP,
        MODE,
        Column("phase", "VARCHAR", "What it is; see `holter.schema.phases.Phase`."),
        Column("name", "VARCHAR", "Which one: a module, an optimizer, an annotation, a stack."),
        Column("value", "DOUBLE", "What the phase says it is; absent when it says nothing.", nullable=True),
    ),
)

SCALARS = TableSchema(
    "scalars",
    "A number that training produced: loss, learning rate, what the user logs.",
    (
        TIME,
        RANK,
        Column("step", "BIGINT", "Global training step, or the step that was logged; -1 before the first."),
        MODE,
        Column("name", "VARCHAR", "Which number."),
        Column("value", "DOUBLE", "The number; NaN and infinities are kept as they are."),
    ),
)

STEPS = TableSchema(
    "steps",
    "One step of one rank, its wall time split into exclusive parts. Derived from spans.",
    (
        *TIMED,
        STEP,
        MODE,
        *(Column(part, "BIGINT", f"Exclusive time in {part}.", "ns") for part in BREAKDOWN),
        Column("compile", "BIGINT", "Time a compiler ran within the step, whichever part it fell in.", "ns"),
        Column("at_once", "INTEGER", "Above 1: so many steps ran in one call and divide its time evenly."),
    ),
)

EVENTS = TableSchema(
    "events",
    "Something rare that happened to the job, to a process, or to holter itself.",
    (
        TIME,
        Column("rank", "INTEGER", "Global rank it concerns; -1 when none.", nullable=False),
        Column(
            "kind",
            "VARCHAR",
            "process, framework, rank, loader, exception, end, exit, oom, hang, lost, stacks, fault, dropped, "
            "clock, signal, control, nonfinite, sentinel, planned, epoch, model, program, pulse, compiled, device_time, gpu_time, "
            "pipeline.",
        ),
        Column("name", "VARCHAR", "Which one; a short text."),
        Column("detail", "VARCHAR", "A JSON object with everything else."),
    ),
)


def _statistic(name: str, meaning: str) -> Column:
    return Column(name, "FLOAT", meaning, nullable=True)


_TENSOR = Column("name", "VARCHAR", "Which tensor, as `fc1.weight`, `gradient/fc1.weight`, `relu1_output_0`.")

PARAMETERS = ("weight", "bias", "norm_param", "embedding")
"""Roles of parameters in table `tensors`."""
GRADIENT = "gradient/"
"""The prefix of a gradient's name; its parameter's name follows."""
TENSORS = TableSchema(
    "tensors",
    "Statistics of one tensor at one step; elements that are not finite are counted, and left out of the rest.",
    (
        *STEPPED,
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
        Column("part", "INTEGER", "Which of its `parts` it is, from 0 on; two ranks may hold the same one."),
        Column(
            "parts",
            "INTEGER",
            "Into how many parts ranks divide it (DTensor, FSDP2); 1 where each holds all of it, 0 where nothing says.",
        ),
    ),
)

TENSOR_VALUES = TableSchema(
    "tensor_values",
    "One element of what a tensor is described by at one step: a small tensor's own values, a histogram, its units.",
    (
        *STEPPED,
        _TENSOR,
        Column(
            "kind",
            "VARCHAR",
            "value: the tensor itself, flattened; shape: its sizes; histogram: counts of equal bins from min to max; "
            "exponents: counts by floor(log2|x|) from -64 up, all below and above in the outer two; active: per unit, "
            "samples in which it was active since the last row; samples: how many samples those were; abs_min, prod: smallest magnitude and product of the finite elements.",
        ),
        Column("position", "INTEGER", "Place of the element."),
        Column("value", "DOUBLE", "The element."),
    ),
)

TABLES: dict[str, TableSchema] = {
    table.name: table
    for table in (SAMPLES, SPANS, SCALARS, STEPS, EVENTS, TENSORS, TENSOR_VALUES, *TRACES, *PYTHON)
}
