"""The look: profiles a few steady steps without a request, where the parts of a step do not explain its time.

The sampler of the loop tells which part is open each time it wakes. Unless the training mostly waits, a
window of one step shows what the profiler costs here, and a second window takes as many steps, with shapes,
as the budget allows. Meanwhile a thread samples the lines that the training thread runs.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from importlib import import_module
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from holter.recorder import profilers
from holter.recorder.guard import tell
from holter.recorder.switch_interval import SwitchInterval
from holter.schema import windows as page
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.guard import CircuitBreaker

AFTER_NS = 5_000_000_000
"""How long a loop has run before an automatic look, so that the budget is a small part of it."""
LEAST_STEPS = 20
LEAST_WAKES = 12
BUDGET_NS = 300_000_000
BUDGET_SHARE = 1000
"""The budget is one part in this many of the loop so far, or `BUDGET_NS`, whichever is larger."""
PLAIN_STEPS = 5
"""Steps that are timed before the profiler starts."""
WINDOW_NS = 30_000_000
"""Short steps are profiled for this long, at most `MOST_STEPS` of them."""
FEWEST_STEPS, MOST_STEPS = 3, 20
SHAPES_COST = 4
"""What the end of a step costs with shapes, relative to one without; measured: 2.7 to 3.5."""
DISTURBED, DISTURBED_NS = 2, 50_000_000
"""A step that takes this many times as long as others, and this much more, ends the window within it."""
MOST_TRIES = 3
"""Windows without a whole step, after which there is no other."""
SAMPLES = 100
"""Stack samples of a look, at least."""
MOST_SAMPLING_NS = 2_000_000_000
_LEAST_INTERVAL_S, _MOST_INTERVAL_S, _SWITCH_S = 0.001, 0.02, 0.0005
_WAITS = (Phase.DATA_LOADING, Phase.COMMUNICATION, Phase.CHECKPOINT, Phase.EVAL)


def mode_from_environment() -> str:
    """Return one of `LOOKS`; an unknown value of the variable is reported and means `never`."""
    given = os.environ.get(page.ENV_LOOK) or "auto"
    if given in page.LOOKS:
        return given
    tell(f"{page.ENV_LOOK}={given} is not known; valid: {', '.join(page.LOOKS)}. It counts as never")
    return "never"


class LookSession(Protocol):
    """The session that a look belongs to."""

    step: int
    wake: memoryview
    sticky: dict[str, Any]

    @property
    def windows(self) -> Any:
        """The windows of the process."""

    @property
    def background(self) -> Any:
        """The threads of the recorder in the process."""

    def breaker(self, name: str) -> CircuitBreaker:
        """Return the fault counter of one thing."""

    def thread_spool(self) -> Any:
        """Return the calling thread's spool."""


class Look:
    """Decides when the look begins and how long it lasts. `Windows` runs its windows."""

    def __init__(
        self,
        session: LookSession,
        mode: str,
        compiles: Callable[[], bool],
        sample: Callable[[int, SwitchInterval], None],
    ) -> None:
        self._session = session
        self._compiles = compiles
        self._sample = sample
        """Writes a stack sample that stands for so many ns."""
        self._always = mode == "always"
        self._on = mode != "never"
        self._began = 0
        self._open: Counter[int] = Counter()
        """How often a part was open when the sampler woke; 0 is the loop's own code."""
        self._due = False
        self._bounds: list[int] = []
        """When the steps began that are timed without the profiler."""
        self._asked = False
        self._tries = 0
        """Windows that a long step has ended."""
        self._evaluates = False
        """Whether a step without the profiler evaluated a model: then others may, too."""
        self._start_ns = self._left = self._probe = 0
        self.step_ns = 0
        """Duration of a step without the profiler."""
        self._over = threading.Event()
        self._stopped = False

    @property
    def waits(self) -> bool:
        """Whether it needs the begin of the next step."""
        return self._on and bool(self._bounds) and not self._asked

    def woke(self, phase: int) -> None:
        """Note which part is open; called by the sampler's thread."""
        if not self._on or self._asked or self._session.windows.automatic is not self:
            return
        now = time.perf_counter_ns()
        self._began = self._began or now
        self._open[phase] += 1
        if self._due or self._ready(now):
            if not self._due:  # here, not while the training waits
                import_module(f"{profilers.__name__}.operators")
            self._due = True
            self._session.wake[page.WAKE] = 0  # the next begin of a step asks for the window

    def _ready(self, now: int) -> bool:
        if self._session.step < LEAST_STEPS:
            return False
        if self._always:
            return True
        wakes = sum(self._open.values())
        if now - self._began < AFTER_NS or wakes < LEAST_WAKES:
            return False
        device = (self._session.sticky.get("framework") or {}).get("device")
        if device != "cpu" or self._compiles():
            return False
        return sum(self._open[phase] for phase in _WAITS) <= wakes / 2

    def give_up(self) -> None:
        """Never look: the user profiles, or another rank looks."""
        self._on = False
        self._over.set()

    def _stop(self) -> None:
        self._stopped = True

    def next_window(self, step: int, now: int) -> page.Request | None:
        """Return the window that begins with a step; None when the look is not due, waits, or is over."""
        if not (self._on and self._due):
            return None
        if not self._asked:
            self._bounds.append(now)
            if len(self._bounds) <= PLAIN_STEPS:
                return None
            self.step_ns = int(median(b - a for a, b in zip(self._bounds, self._bounds[1:], strict=False)))
            self._asked = True
            if not self._tries:
                self._left = max(BUDGET_NS, (now - self._began) // BUDGET_SHARE)
                self._session.background.start("holter-look", self._run, self._stop)
            return page.Request("operators", start_step=step, steps=1)
        if not self._probe:  # the first window could not begin
            self.give_up()
            return None
        wanted = min(max(FEWEST_STEPS, math.ceil(WINDOW_NS / max(self.step_ns, 1))), MOST_STEPS)
        steps = min(wanted, self._left // (SHAPES_COST * self._probe))
        self._on = False
        if steps < 1:  # the first window has cost more than the budget
            self._over.set()
            return None
        return page.Request("operators", start_step=step, steps=int(steps), parameters={"shapes": True})

    def started(self, took: int) -> None:
        """Note how long a window took to start, ns."""
        self._start_ns = took

    def costs_too_much(self, bounds: list[int]) -> bool:
        """Whether the running window uses up the budget; `bounds` are the begins of its steps so far."""
        steps = len(bounds) - 1
        return self._slower(bounds) + steps * SHAPES_COST * self._probe > self._left

    def evaluation(self, begins: bool) -> None:
        """Note that a model evaluates on the training thread, or trains again after it."""
        if begins and not self._asked:
            self._evaluates = self._evaluates or bool(self._bounds)
        elif begins and not self._evaluates and not self._over.is_set():
            self._session.windows.end_look()

    def is_disturbed(self, bounds: list[int], now: int) -> bool:
        """Whether the step that runs takes so long that it is no step like the others."""
        return now - bounds[-1] > DISTURBED * self.step_ns + DISTURBED_NS

    def ended(self, bounds: list[int], stopping: int) -> int:
        """Count what a window cost that took `stopping` ns to end; return the cost, ns."""
        cost = self._start_ns + self._slower(bounds) + stopping
        self._left -= cost
        if len(bounds) == 1:
            self._try_again()
        else:
            # The end takes a time for each event; the rest of the first window is partly that of imports.
            self._probe = self._probe or max(stopping, 1)
        if not self._on:
            self._over.set()
        self._session.thread_spool().spent(cost)
        return cost

    def _try_again(self) -> None:
        """Begin again with the steps after the one that ended the window within it."""
        self._tries += 1
        self._on = self._tries < MOST_TRIES and self._left > 0
        if not self._probe:
            self._asked = self._evaluates = False
            self._bounds.clear()

    def _slower(self, bounds: list[int]) -> int:
        """Return the time that profiled steps took beyond that of as many others."""
        return max(bounds[-1] - bounds[0] - (len(bounds) - 1) * self.step_ns, 0)

    def _run(self) -> None:
        """Sample the lines of the training thread during the look, and in the steps after it."""
        breaker = self._session.breaker("look")
        steps = min(max(FEWEST_STEPS, WINDOW_NS // max(self.step_ns, 1)), MOST_STEPS)
        interval = min(max(steps * self.step_ns / 1e9 / SAMPLES, _LEAST_INTERVAL_S), _MOST_INTERVAL_S)
        switch = SwitchInterval(_SWITCH_S)
        switch.shorten()
        try:
            begun = time.perf_counter_ns()
            samples = 0
            while (
                time.perf_counter_ns() - begun < MOST_SAMPLING_NS
                and not (self._over.is_set() and samples >= SAMPLES)
                and not self._stopped
            ):
                time.sleep(interval)
                self._sample(int(1e9 * interval), switch)
                samples += 1
            self._session.thread_spool().spent(time.thread_time_ns())
        except Exception as error:
            breaker.fault(error)
        finally:
            switch.restore()
