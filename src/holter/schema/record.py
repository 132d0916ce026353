"""The files of the spool, which a training process writes and the agent reads, byte by byte.

A process owns, in the spool directory, these files (`P` = pid, then `-`, then its start as
monotonic nanoseconds, so that a reused pid is another process; `T` = index of the thread, 0 = main):

* `P.journal`: JSON lines for everything rare: who the process is, names, loaders, exceptions.
* `P.T.head`: one page; which spans are open now, which step it is, how many records were dropped.
* `P.T.N.seg`: segment number N: fixed-size records, each complete once its last byte is not zero.
* `P.orders`: one page of a process that trains, by which it learns of profiling windows; see `windows`.
* `P.stacks`: what `faulthandler` writes when the agent asks for all Python stacks.
"""

from __future__ import annotations

import struct
from typing import Any

SPOOL_VERSION = 2

FIELDS = (
    ("begin", "q"),
    ("duration", "q"),
    ("value", "d"),
    ("step", "i"),
    ("name", "H"),
    ("mode", "B"),
    ("phase", "B"),
)
"""The fields of a record, little-endian, with their type codes, which `struct` and numpy share.

`begin` is in monotonic ns, `duration` in ns; NaN is a missing value, -1 a missing step; `name` is the id of a
name. The phase comes last and is never 0: a record whose last byte is 0 is incomplete. The struct formats,
numpy's type and `recorder/native/layout.h` are made from this table.

Two kinds of records are folded into others, because each record costs the training time. The value of a LOSS
is the loss: a SCALAR of the same name at its end. The value of an OPTIMIZER is its `step_lead`: the STEP that
ends with it. `agent.drain.segments` unfolds them. A SCALAR takes no time: its `duration` is what its step
exceeds the field `step` by, see `scalar_duration`.
"""
RECORD = struct.Struct("<" + "".join(code for _, code in FIELDS))
RECORD_SIZE = RECORD.size
TAIL = tuple(name for name, _ in FIELDS[3:])
"""The fields that the recorder writes as one 64-bit word, lowest bits first, because that is faster."""
PACKED = struct.Struct("<" + "".join(code for _, code in FIELDS[:3]) + "q")
"""`RECORD` with the tail as one word."""
_BITS = [8 * struct.calcsize("<" + code) for _, code in FIELDS[3:]]
STEP_SHIFT, NAME_SHIFT, MODE_SHIFT, PHASE_SHIFT = (sum(_BITS[:at]) for at in range(len(TAIL)))
"""Bit of the tail at which each of its fields begins."""
STEP_MASK = (1 << _BITS[0]) - 1
MAX_STEP = STEP_MASK >> 1
"""The largest step that its own field holds."""
MAX_SCALAR_STEP = 2**53 - 1
"""The largest step of a number, such as tokens seen so far: browsers hold no larger whole numbers."""
MAX_STEPS_AT_ONCE = 65_536
"""Steps that one STEP record stands for, at most."""


def step_lead(step_begin: int, optimizer_begin: int) -> int:
    """Return the value of an OPTIMIZER record that ends a step: ns from the step's begin to its own."""
    return optimizer_begin - step_begin


def scalar_duration(step: int) -> int:
    """Return the duration of the SCALAR record of a step; the field `step` holds the lower bits."""
    return (step + MAX_STEP + 1) >> _BITS[0]


def scalar_step(step: Any, duration: Any) -> Any:
    """Return the step of a SCALAR record from its fields, which may be arrays of 64-bit integers."""
    return (duration << _BITS[0]) + step


def step_begin(optimizer_begin: Any, lead: Any) -> Any:
    """Return the begin of the step that an OPTIMIZER record with this lead ends; also for arrays."""
    return optimizer_begin - lead


SEGMENT_RECORDS = 32_768
MAX_SEGMENTS = 64
"""Segments that may wait for the agent, for each thread; beyond them new records are dropped and counted."""

HEAD_SIZE = 4096
HEAD_MAGIC = 0x3154_4C4F_4852_4F54
"""First word of a head page (all words are native signed 64-bit)."""
HEAD_VERSION = 1
"""Word 1: `SPOOL_VERSION`."""
HEAD_STEP = 2
"""Word 2: the current step."""
HEAD_DROPPED = 3
"""Word 3: records dropped so far."""
HEAD_THREAD = 4
"""Word 4: native thread id."""
HEAD_COST = 5
"""Word 5: nanoseconds the recorder itself spent in this thread, as far as it measured them."""
COST_EVERY = 16
"""A thread publishes its cost once in so many steps, a power of two."""
HEAD_IDENT = 6
"""Word 6: the thread as Python's stack dumps name it, unsigned; 0 when not known."""
HEAD_OPEN = 16
"""Word 16 and on: the open spans, outermost first, two words each: begin, then `name id << 8 | phase`.

The second word is written last and cleared when the span ends; 0 ends the list.
"""
MAX_OPEN = 32

ADAPTER = "adapter "
"""Begin of the place of a fault that keeps an adapter from attaching; the name of the adapter follows."""

ENV_SPOOL = "HOLTER_SPOOL"
"""Directory of the spool; when it is absent nothing is recorded."""
ENV_DISABLE = "HOLTER_DISABLE"
"""Set to 1: holter does nothing at all."""
ENV_SENTINEL = "HOLTER_SENTINEL"
"""Set to 0: silent errors of the training are not watched for."""
ENV_GPU_TIME = "HOLTER_GPU_TIME"
"""Set to 0: the parts of a step are not timed on the GPU."""
ENV_COMPILE = "HOLTER_COMPILE"
"""Set to 0: nothing that was compiled is loaded; Python, and torch, do the same."""


def journal_name(process: str) -> str:
    """Name of the journal of a process (`pid-start`)."""
    return f"{process}.journal"


def head_name(process: str, thread: int) -> str:
    """Name of the head page of a thread."""
    return f"{process}.{thread}.head"


def segment_name(process: str, thread: int, number: int) -> str:
    """Name of one segment of a thread."""
    return f"{process}.{thread}.{number}.seg"


def stacks_name(process: str) -> str:
    """Name of the file that holds the dumped stacks of a process."""
    return f"{process}.stacks"
