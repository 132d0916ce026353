"""Holds the state that hooks read in every step: of each thread, and of the adapter.

`native/step_hooks.c` and `native/thread_state.c` are compiled versions of both classes. The classes here
document the fields, and replace the compiled ones where no C compiler is available.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holter.recorder.spool import hotpath

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable

    from holter.recorder.guard import CircuitBreaker
    from holter.recorder.session import Session
    from holter.recorder.spool.thread_spool import ThreadSpool

NEVER = 1 << 62


@dataclass(slots=True, eq=False)
class ThreadState:
    """The open spans of one thread. Of nested spans of one kind, only the outermost is recorded."""

    thread_spool: ThreadSpool
    begin: Callable[[int], int] = field(init=False)
    end_of: Callable[..., int] = field(init=False)
    add: Callable[..., None] = field(init=False)
    fail: Callable[[BaseException], None] = field(init=False)
    forward: bool = False
    """Whether a module's call begins no forward pass: inside a forward pass, a backward pass or a fetch."""
    depth: int = 0
    """Open module calls that the discovery hooks have seen."""
    backward: bool = False
    pass_began: int = 0
    """Begin of the backward pass, ns; 0 if it could not be written."""
    before_pass: bool = False
    before_next: bool = False
    """Values of `forward` before the backward pass, and before the batch."""
    call_code: int = 0
    """Code of the forward pass; 0 if its begin could not be written."""
    heard: bool = False
    """Whether a profiler listens: then `begin` and `end_of` are not those of the thread's spool."""
    loading: bool = False
    asked: bool = False
    """Whether the span of the data loading has begun."""
    fetching: int = 0
    """Open fetches: a dataset may load from another dataset."""
    moving: bool = False
    saving: bool = False
    waiting: bool = False
    optimizers: int = 0
    began: int = 0
    """Begin of the outermost optimizer step, ns."""
    scaling: bool = False
    """Whether a gradient scaler steps an optimizer: then its call is the span."""
    optimizer: int = 0
    """Id of the outermost optimizer that steps; unchanged when the step raises."""
    seen: bool = True
    """Whether another span of the step began since the last request for a batch."""
    forward_end: int = 0
    """End of the last outermost forward pass, ns; 0 once another span has followed."""

    def __post_init__(self) -> None:
        """Copy the functions of the thread's spool, which hooks then find faster."""
        spool = self.thread_spool
        self.begin, self.end_of, self.add, self.fail = spool.begin, spool.end_of, spool.add, spool.fail


class StepHooks:
    """The state that the hooks of every step read, and the hooks of a usual step."""

    local: ThreadStates
    session: Session
    logged_names: set[str]
    """Names of scalars that the user logs."""

    before_step: Callable[[Any], None] | None
    """Called with an optimizer before a step in which its tensors are read."""
    after_step: Callable[[Any], None] | None
    """Called with it after the step."""
    inner_steps: int
    """Optimizer steps so far, including those inside other optimizers or scalers."""
    sole: int
    """Id of the only optimizer, which ends every step; 0 if unknown."""
    sole_type: type | None
    sole_code: int
    """Code of its spans."""
    rate: float | None
    """The last recorded learning rate."""
    rate_left: int
    """Steps until an unchanged learning rate is recorded again."""
    boundary_calls: set[Callable[[], None]]
    """Called at every step boundary, before the step number changes; empty most of the time."""
    pauses: list[tuple[int, int, int]]
    """Begin, duration (both ns) and generation of garbage collections that are not written yet."""
    wake_at: int
    """The step at whose end `AdapterState.wake` is called, before the step number changes."""

    tensor: Any
    """The class of losses that the compiled hook reads; None while Python examines each loss."""
    observed: Callable[[Any], bool]
    """Returns whether a subclass or a mode watches functions of a tensor."""
    modes: Callable[[], int]
    """Returns the number of active dispatch modes."""
    item: Callable[[Any], Any]
    """Reads the number in a tensor of one element."""
    losses: CircuitBreaker
    next_code: int
    """Code of spans of requests for a batch."""
    model_codes: dict[type, int]
    """Codes of forward spans, by class of the model."""
    on_forward: Callable[[Any], None] | None
    """Called with a model before the loop calls it."""
    evaluates: bool
    """Whether the last called model evaluates."""
    backward_code: int
    loss_name: int
    look: Callable[[Any, Any], None] | None
    """Called with every loss, unscaled and scaled, while tensors are recorded."""
    scaled: weakref.ref[Any] | None
    """The last loss that a gradient scaler returned."""
    evaluated: list[tuple[int, int, str, Any]]
    """Time, step, function and value of each loss since the last call of a model that evaluates."""
    healthy_step: int
    """Step of the last finite loss on the host."""
    healthy_loss: float
    backward_open: bool
    """Whether a backward pass runs: a step that ends inside it ends with it."""
    deferred: Callable[[], None] | None
    """Ends that step."""
    before_end: list[Callable[[int], None]]
    """Called with the begin of a backward pass, before its span ends."""
    predicting: bool | None
    """Whether forward passes are steps; None if unknown, False once an optimizer exists."""

    @property
    def current(self) -> ThreadState:
        """The state of the calling thread."""
        return self.local.current

    def next_begins(self) -> bool:
        """Begin the span of a request for a batch; return False inside another request."""
        return self.begin_next()

    def next_ends(self, iterator: Any) -> None:
        """End the span when the batch is there or the iterator is exhausted."""
        self.end_next(iterator)

    def call_begins(self, module: Any) -> bool:
        """Begin the span of a call of a model; return False if the call is no new forward pass."""
        return self.begin_call(module)

    def call_ends(self, module: Any) -> None:
        """End the span when the call returns."""
        self.end_call(module)

    def optimizer_begins(self, optimizer: Any) -> bool:
        """Return whether this call has recorded the begin of an optimizer step."""
        return False

    def optimizer_ended(self, optimizer: Any) -> bool:
        """Return whether this call has recorded its end, and the end of the step."""
        return False

    def pass_begins(self, tensors: Any) -> bool:
        """Begin the span of a backward pass; return False inside another pass."""
        return self.begin_pass(tensors)

    def pass_ends(self) -> None:
        """End the span of a backward pass."""
        self.end_pass()

    if TYPE_CHECKING:
        begin_next: Callable[[], bool]
        """The Python version of `next_begins`; the others accordingly."""
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
