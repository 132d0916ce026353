"""Holds the state that hooks read in every step, by thread and for the whole adapter.

`native/step_hooks.c` compiles both classes and the hooks of a common step. The classes here document the
fields, and serve where nothing is compiled.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from holter.recorder.spool import hotpath

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable

    from holter.recorder.guard import CircuitBreaker
    from holter.recorder.session import Session
    from holter.recorder.spool.thread_spool import ThreadSpool

NEVER = 1 << 62


class ThreadState:
    """The spans that one thread is inside of. Of nested spans of one kind only the outermost is recorded."""

    __slots__ = (
        "add",
        "asked",
        "backward",
        "before_next",
        "before_pass",
        "began",
        "begin",
        "call_code",
        "depth",
        "end_of",
        "fail",
        "fetching",
        "forward",
        "forward_end",
        "heard",
        "loading",
        "moving",
        "optimizer",
        "optimizers",
        "pass_began",
        "saving",
        "scaling",
        "seen",
        "thread_spool",
        "waiting",
    )

    def __init__(self, thread_spool: ThreadSpool) -> None:
        self.thread_spool = thread_spool
        self.begin = thread_spool.begin
        self.end_of = thread_spool.end_of
        self.add = thread_spool.add
        self.fail = thread_spool.fail
        self.forward = False
        """A forward pass, or something in which a module's call is not one: a backward pass, a fetch."""
        self.depth = 0
        """Module calls open as the discovery hooks see them."""
        self.backward = False
        self.pass_began = 0
        """When the backward pass began, ns; 0 when its begin could not be written."""
        self.before_pass = self.before_next = False
        """What `forward` was before the backward pass, and before the batch."""
        self.call_code = 0
        """Code of the forward pass; 0 when its begin could not be written."""
        self.heard = False
        """A listener gets begins and ends: `begin` and `end_of` are not those of the thread's spool."""
        self.loading = False
        self.asked = False
        """The span of the loading has begun."""
        self.fetching = 0
        """Fetches open: a dataset may load from another one."""
        self.moving = False
        self.saving = False
        self.waiting = False
        self.optimizers = 0
        self.began = 0
        """When the outermost optimizer that steps began to, ns."""
        self.scaling = False
        """A gradient scaler steps an optimizer: that is the span, the optimizer's own hooks only count."""
        self.optimizer = 0
        """Id of the outermost optimizer that steps; it stays when the step raises."""
        self.seen = True
        """A forward, backward or optimizer was seen since the last batch was asked for."""
        self.forward_end = 0
        """When the last outermost forward pass ended, ns; 0 when something else came after it."""


class StepHooks:
    """The state that the hooks of every step read, and the hooks of a common step."""

    local: ThreadStates
    session: Session
    logged_names: set[str]
    """Names of numbers that the user logs."""

    before_step: Callable[[Any], None] | None
    """Called with an optimizer about to step, where its tensors are read; so is the next."""
    after_step: Callable[[Any], None] | None
    inner_steps: int
    """Optimizer steps so far, those inside others or inside scalers too."""
    sole: int
    """Id of the one optimizer that ends every step; 0 while no such optimizer is known."""
    sole_type: type | None
    sole_code: int
    """Code of its spans."""
    rate: float | None
    """The learning rate that was recorded last."""
    rate_left: int
    """For so many steps more it is not recorded again."""
    boundary_calls: set[Callable[[], None]]
    """Called at every step boundary, before the step number changes; empty most of the time."""
    pauses: list[tuple[int, int, int]]
    """Begin, duration (both ns) and generation of garbage collections that wait to be written."""
    wake_at: int
    """Step at whose end `AdapterState.wake` is called, before the step number changes."""

    tensor: Any
    """The class of losses that are read as they are, None while each is looked at; the next two say who
    watches operations on them."""
    observed: Callable[[Any], bool]
    modes: Callable[[], int]
    item: Callable[[Any], Any]
    """Copies the number in a tensor of one."""
    losses: CircuitBreaker
    next_code: int
    """Code of the span of a batch that is asked for."""
    model_codes: dict[type, int]
    """Codes of the spans of models that were called, by class."""
    on_forward: Callable[[Any], None] | None
    """Called with a model that the loop is about to call."""
    evaluates: bool
    """The last model that was called does."""
    backward_code: int
    loss_name: int
    look: Callable[[Any, Any], None] | None
    """Called with every loss, unscaled and as the pass begins from it, as long as somebody wants to."""
    scaled: weakref.ref[Any] | None
    """The loss that a gradient scaler has made."""
    evaluated: list[tuple[int, int, str, Any]]
    """Time, step, function and value of losses since the last call of a model that evaluates."""
    healthy_step: int
    """Step of the last finite loss on the host; the next is its value."""
    healthy_loss: float
    backward_open: bool
    """A backward pass runs: a step that ends inside it ends with it."""
    deferred: Callable[[], None] | None
    before_end: list[Callable[[int], None]]
    """Called with the begin of a backward pass, just before its span ends."""
    predicting: bool | None
    """Forward passes are steps; None while that is not known, False once an optimizer exists."""

    @property
    def current(self) -> ThreadState:
        """The state of the calling thread."""
        return self.local.current

    def next_begins(self) -> bool:
        """Return whether a batch is asked for, not inside of asking for another."""
        return self.begin_next()

    def next_ends(self, iterator: Any) -> None:
        """The batch is there, or the iterator is exhausted."""
        self.end_next(iterator)

    def call_begins(self, module: Any) -> bool:
        """Return whether a model is called, not inside of another or of what is no forward pass."""
        return self.begin_call(module)

    def call_ends(self, module: Any) -> None:
        """It returns."""
        self.end_call(module)

    def optimizer_begins(self, optimizer: Any) -> bool:
        """Return whether the begin of an optimizer's step is recorded with this."""
        return False

    def optimizer_ended(self, optimizer: Any) -> bool:
        """Return whether its end, and that of the step, is recorded with this."""
        return False

    def pass_begins(self, tensors: Any) -> bool:
        """Return whether a backward pass begins from `tensors` outside of another pass."""
        return self.begin_pass(tensors)

    def pass_ends(self) -> None:
        """It is over."""
        self.end_pass()

    if TYPE_CHECKING:
        begin_next: Callable[[], bool]
        """What `next_begins` does, in Python; so for the others, and for the reading of a loss."""
        end_next: Callable[[Any], None]
        begin_call: Callable[[Any], bool]
        end_call: Callable[[Any], None]
        begin_pass: Callable[[Any], bool]
        end_pass: Callable[[], None]
        read_loss: Callable[[Any, ThreadState, int], float]


_native = hotpath.compiled()
COMPILED = _native is not None
FastThreadState: type[ThreadState] = getattr(_native, "ThreadState", ThreadState)


class ThreadStates(threading.local):
    """Gives each thread its state: one slow lookup, then plain attributes."""

    def __init__(self, session: Session) -> None:
        self.current = FastThreadState(session.thread_spool())


if TYPE_CHECKING:
    FastStepHooks = StepHooks
else:
    FastStepHooks = getattr(_native, "StepHooks", StepHooks)
