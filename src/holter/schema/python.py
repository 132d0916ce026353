"""Tables of Python profiles: functions, calls between them, stacks."""

from __future__ import annotations

from holter.schema.columns import DURATION, MODE, RANK, STEP, TIME, Column, TableSchema

_PHASE = Column(
    "phase",
    "VARCHAR",
    "Part of the step: data_loading, forward, loss, backward, optimizer, checkpoint, other; any: sampled "
    "from outside through whole steps, from this one on.",
)
_TIMER = Column(
    "timer",
    "VARCHAR",
    "What its times are: total_time on the clock, cpu_time of the thread, off_cpu_time that it waited.",
)
_CALLS = Column("calls", "BIGINT", "How often it was called.")
_PRIMITIVE = Column("primitive_calls", "BIGINT", "Of these, calls that were not a recursion.")
_TOTAL = Column("total_time", "BIGINT", "Time in it and in what it called.", "ns")
_SELF = Column("self_time", "BIGINT", "Of this, in its own code.", "ns")
_FUNCTION = "`qualname (file:line)`, or what it is called when it is not written in Python."

PYTHON_FUNCTIONS = TableSchema(
    "python_functions",
    "One function in one part of one step, every call of it timed by cProfile, on the training thread.",
    (
        TIME,
        DURATION,
        RANK,
        STEP,
        MODE,
        _PHASE,
        _TIMER,
        Column("function", "VARCHAR", _FUNCTION),
        _CALLS,
        _PRIMITIVE,
        _TOTAL,
        _SELF,
    ),
)

PYTHON_CALLS = TableSchema(
    "python_calls",
    "One function as called by one other, in one part of one step; a share of its row in `python_functions`.",
    (
        TIME,
        RANK,
        STEP,
        MODE,
        _PHASE,
        _TIMER,
        Column("caller", "VARCHAR", _FUNCTION),
        Column("function", "VARCHAR", _FUNCTION),
        _CALLS,
        _PRIMITIVE,
        _TOTAL,
        _SELF,
    ),
)

PYTHON_STACKS = TableSchema(
    "python_stacks",
    "One stack in one part of one step, as seen by a sampling profiler on the training thread.",
    (
        TIME,
        DURATION,
        RANK,
        STEP,
        MODE,
        _PHASE,
        Column("stack", "VARCHAR", "Functions, outermost first, joined by `;`."),
        Column("samples", "INTEGER", "How often it was seen."),
        Column("self_time", "BIGINT", "Time these samples stand for.", "ns"),
    ),
)

PYTHON = (PYTHON_FUNCTIONS, PYTHON_CALLS, PYTHON_STACKS)
"""In each, `time` is when the part of the step began, and `duration` how long all of it took."""
