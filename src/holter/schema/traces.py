"""Tables of profiling windows and traces: events of the host and of accelerators, and Python profiles."""

from __future__ import annotations

from holter.schema.columns import MODE, RANK, STEP, STEPPED, TIME, TIMED, Column, TableSchema

INFERRED = "inferred from "
"""The name of a span of an inferred step begins so, and says what shows the step."""

_THREAD = Column("thread", "BIGINT", "Thread that did it.")
_DEVICE = Column("device", "SMALLINT", "Index of the accelerator in its node.")
_STREAM = Column("stream", "INTEGER", "Stream of the accelerator.")
_CORRELATION = Column(
    "correlation", "BIGINT", "Number that a launch shares with what it launched; 0 for none."
)
_ON_DEVICE = (*TIMED, _DEVICE, _STREAM, STEP)
_ON_HOST = (*TIMED, _THREAD, STEP)

KERNELS = TableSchema(
    "kernels",
    "One kernel that ran on an accelerator, within a profiling window or from an imported trace.",
    (
        *_ON_DEVICE,
        Column("name", "VARCHAR", "Its name."),
        Column("kind", "VARCHAR", "compute or communication."),
        Column("collective", "VARCHAR", "Which collective: allreduce, allgather, ...; empty for compute."),
        Column("process_group", "VARCHAR", "Process group of the collective."),
        Column("group_size", "INTEGER", "Ranks in that group; 0 when unknown."),
        Column("bytes", "BIGINT", "Bytes the collective moves; 0 when unknown.", "bytes"),
        _CORRELATION,
        Column(
            "detail",
            "VARCHAR",
            "Grid, block, registers, occupancy, ranks of the group: a JSON object, or empty.",
        ),
    ),
)

LAUNCHES = TableSchema(
    "launches",
    "One call by which the host asked an accelerator for a kernel, a copy or a fill.",
    (
        *_ON_HOST,
        Column("name", "VARCHAR", "The function called."),
        _CORRELATION,
    ),
)

MEMORY_OPERATIONS = TableSchema(
    "memory_operations",
    "One copy or fill of memory by an accelerator.",
    (
        *_ON_DEVICE,
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
        *_ON_HOST,
        Column("kind", "VARCHAR", "stream, device, event or copy."),
        Column("name", "VARCHAR", "The function called, and where it was called from when that is known."),
    ),
)

OPERATORS = TableSchema(
    "operators",
    "One operator of the framework, or function of Python, on the host.",
    (
        *_ON_HOST,
        Column("name", "VARCHAR", "The operator."),
        Column(
            "kind",
            "VARCHAR",
            "operator, python, annotation, module or runtime; device_annotation and device_wait (thread: the stream): "
            "ranges that a trace lays over a stream, and waits of a stream; overhead: of the profiler itself.",
        ),
        Column("detail", "VARCHAR", "Shapes, types, arguments, stack: a JSON object, or empty."),
    ),
)

TRACKS = TableSchema(
    "tracks",
    "What a timeline calls its processes, threads, devices and streams.",
    (
        TIME,
        RANK,
        Column("process", "BIGINT", "Process, as the trace numbers it; -1 for none."),
        Column("thread", "BIGINT", "Thread, or the stream of a device; -1 for the process itself."),
        _DEVICE,
        Column("kind", "VARCHAR", "process, thread, device or stream."),
        Column("name", "VARCHAR", "What it is called."),
        Column("position", "INTEGER", "Where it stands among its like, from the top; 0 when not said."),
    ),
)

COUNTERS = TableSchema(
    "counters",
    "One value of a counter of a trace: memory in use, bytes on a link, batches waiting.",
    (
        TIME,
        RANK,
        Column("process", "BIGINT", "Process, as the trace numbers it; -1 for none."),
        Column(
            "name", "VARCHAR", "The counter, and behind a slash which of its series, where it has several."
        ),
        Column("value", "DOUBLE", "The value from now on."),
    ),
)

FLOWS = TableSchema(
    "flows",
    "An arrow from one event to a later one; launches have none, their correlation says it.",
    (
        *TIMED,
        _THREAD,
        Column("target", "BIGINT", "Thread it leads to, at the time plus the duration."),
        Column("kind", "VARCHAR", "What it means: forward_backward, or what the trace calls it."),
    ),
)

TILES = TableSchema(
    "tiles",
    "One block of a timeline's picture at one level of detail. Computed from kernels, operators and spans; in the user's cache, never in a job.",
    (
        TIME,
        Column("duration", "BIGINT", "To the end of the last event in it.", "ns"),
        RANK,
        Column("kind", "VARCHAR", "Which lane: stream, thread, annotations or phases."),
        Column("device", "SMALLINT", "Accelerator of a stream, data-loader worker of phases; -1 for none."),
        Column("track", "BIGINT", "Stream or thread of the lane."),
        Column("depth", "SMALLINT", "Line within the lane; of a whole lane, how many lines it has."),
        Column(
            "level",
            "SMALLINT",
            "Level of detail: n has blocks of 1024 * 4^n ns. Below 0: the whole lane, whose finest level is -1 - level.",
        ),
        Column("name", "VARCHAR", "Name of the longest event in it."),
        Column("count", "BIGINT", "Events in it; an event as long as a block or longer stands alone."),
        Column("busy", "BIGINT", "Sum of the durations of the events in it.", "ns"),
    ),
)

TRACES = (KERNELS, LAUNCHES, MEMORY_OPERATIONS, SYNCS, OPERATORS, TRACKS, COUNTERS, FLOWS, TILES)

_PHASE = Column(
    "phase",
    "VARCHAR",
    "Part of the step: data_loading, forward, loss, backward, optimizer, checkpoint, other; any: sampled "
    "from outside through whole steps, from this one on; program: sampled by a program without an adapter.",
)
_TIMER = Column(
    "timer",
    "VARCHAR",
    "What its times are: total_time on the clock, cpu_time of the thread, off_cpu_time that it waited.",
)
_COUNTS = (
    Column("calls", "BIGINT", "How often it was called."),
    Column("primitive_calls", "BIGINT", "Of these, calls that were not a recursion."),
    Column("total_time", "BIGINT", "Time in it and in what it called.", "ns"),
    Column("self_time", "BIGINT", "Of this, in its own code.", "ns"),
)
_FUNCTION = "`qualname (file:line)`, or what it is called when it is not written in Python."

PYTHON_FUNCTIONS = TableSchema(
    "python_functions",
    "One function in one part of one step, every call of it timed by cProfile, on the training thread.",
    (
        *TIMED,
        STEP,
        MODE,
        _PHASE,
        _TIMER,
        Column("function", "VARCHAR", _FUNCTION),
        *_COUNTS,
    ),
)

PYTHON_CALLS = TableSchema(
    "python_calls",
    "One function as called by one other, in one part of one step; a share of its row in `python_functions`.",
    (
        *STEPPED,
        _PHASE,
        _TIMER,
        Column("caller", "VARCHAR", _FUNCTION),
        Column("function", "VARCHAR", _FUNCTION),
        *_COUNTS,
    ),
)

PYTHON_STACKS = TableSchema(
    "python_stacks",
    "One stack in one part of one step, as seen by a sampling profiler on the training thread.",
    (
        *TIMED,
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
