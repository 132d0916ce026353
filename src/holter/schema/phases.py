"""The kinds of spans: phases of a step, stages of data loading, modes."""

from __future__ import annotations

from enum import IntEnum


class Phase(IntEnum):
    """What a span is. The number is what the spool stores; the name in lower case is what tables store."""

    STEP = 1
    """One global training step: from the end of the previous optimizer step to the end of this one.
    `value` = the number of steps that one call ran, where it is above 1; `step` is then the first of them."""
    DATA_LOADING = 2
    """The training thread waits for the next batch. `value` = index of the loader in its process."""
    H2D = 3
    """Copy from host to device, as seen by the host. `value` = bytes."""
    FORWARD = 4
    """Forward pass of an outermost module. `mode` = eval when that module is not in training mode; then `value` = 1
    if the script puts it into training mode again and again."""
    LOSS = 5
    """From the end of the forward pass to the start of the backward pass."""
    BACKWARD = 6
    """`torch.autograd.backward` and what calls it."""
    OPTIMIZER = 7
    """`optimizer.step`, without the closure's own forward and backward."""
    COMMUNICATION = 8
    """The training thread waits for other ranks. `value` = bytes of the largest argument, when it has tensors."""
    CHECKPOINT = 9
    """State is written to storage. `value` = bytes, when known."""
    EVAL = 10
    """An evaluation that the user marked, or one that was recognized."""
    ANNOTATION = 11
    """A range the user named."""
    FETCH = 12
    """A batch is built by a data-loader worker, or by the training thread without workers. `value` = samples."""
    COLLATE = 13
    """Samples are joined to a batch, inside FETCH."""
    STACK = 14
    """A stack sample inside FETCH. `duration` = time it stands for; `name` = frames, outermost first."""
    COMPILE = 15
    """A compiler (torch.compile) builds code."""
    GC = 16
    """A pause of the garbage collector. `value` = generation."""
    SCALAR = 17
    """An instant: `name` = what, `value` = its value (loss, lr, …)."""
    SKIPPED = 18
    """An instant: an optimizer step that a gradient scaler skipped."""
    LOOP_STACK = 19
    """A stack sample of the training thread outside of all other spans. `duration` = time it stands for;
    `name` = frames, the loop's first. During a look it is taken inside of them, too: `value` = the outermost
    phase that was open, 0 without one. `value` = -1: the stack of another thread, which holds the interpreter."""
    COMPUTE = 30
    """Work of a step that the framework does in one piece, such as growing trees; `name` = what it does."""


HOLDS = -1.0
"""`value` of a LOOP_STACK record of another thread, which held the interpreter."""

NO_PROGRESS = ("stack", "loop_stack", "gc")
"""Phases that do not show progress: code that hangs is still sampled."""

SCRIPT = "script"
"""The owner of steps that `holter.step` marks."""
ENDED = "exit"
"""In place of a phase: the process has ended its recording in order; it exits, or goes on unrecorded."""
BREAKDOWN = (
    "data_loading",
    "h2d",
    "forward",
    "loss",
    "backward",
    "optimizer",
    "compute",
    "communication",
    "checkpoint",
    "eval",
    "other",
)
"""Parts of a step's wall time; exclusive, they add up to it."""

NNX_JIT, FILTER_JIT = "nnx.jit around ", "filter_jit around "
"""Begins of the names of what Flax and equinox compute in Python around a compiled function."""
ITERATOR_START, NEXT_BATCH, ITERATOR_END = "iterator start", "next batch", "iterator end"
"""Names of DATA_LOADING spans: an iterator is made and its workers started, a batch is waited for, or the
workers of an iterator that was left are ended."""

STAGES = ("read", "decode", "transform", "collate", "queue")
"""Parts of data loading that holter names when it recognizes them; other callables keep their own names."""

RAY_DATA = {
    "production_wait": "waiting for Ray Data's tasks",
    "data_transfer": "fetching blocks of Ray Data",
    "batching": "batching in Ray Data",
    "format": "formatting in Ray Data",
    "collate": "collating in Ray Data",
    "finalize": "finalizing in Ray Data",
}
"""Stage of Ray Data's iterator → name of the annotation for the part of a wait that the stage takes."""

JOB_PHASES = ("initialization", "training_loop", "evaluation", "finalization")


class Mode(IntEnum):
    """What the model is used for while a span runs."""

    GLOBAL = 0
    TRAIN = 1
    EVAL = 2
    PREDICT = 3


SPOKEN = {"h2d": "host to device", "eval": "evaluation"}
"""Names for people, where the name itself is an abbreviation."""
